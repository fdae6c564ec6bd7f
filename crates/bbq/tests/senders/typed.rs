//! Commands of a page, in one shell, as a reader types them: in an empty directory, and in a network of their own, because they use the
//! default ports.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::support::BBQ;

/// A page takes a few seconds.
const SECONDS_MAX: &str = "120";

/// What the commands printed.
pub(crate) struct Typed {
    directory: TempDir,
}

impl Typed {
    /// Runs commands, each after the one before, until one fails. Whoever ends early leaves no server behind. Panics with what was
    /// printed if one fails.
    pub(crate) fn run<'a>(steps: impl IntoIterator<Item = &'a str>) -> Typed {
        let mut script =
            "set -eu\nip link set lo up\ntrap 'kill -KILL $(jobs -p) 2> /dev/null || true' EXIT\n".to_owned();
        for (number, commands) in steps.into_iter().enumerate() {
            script += &format!("echo step {number} >&2\n{{\n{commands}\n}} > step-{number} 2>&1\n");
        }
        let typed = Typed { directory: tempfile::tempdir().expect("a directory") };
        let programs = Path::new(BBQ).parent().expect("a directory").display().to_string();
        let path = format!("{programs}:{}", std::env::var("PATH").expect("a path"));
        let done = Command::new("timeout")
            .args([SECONDS_MAX, "unshare", "--user", "--net", "--map-root-user", "bash", "-c", &script])
            .env("PATH", path)
            .env("NO_COLOR", "1")
            .current_dir(typed.directory.path())
            .stdin(Stdio::null())
            .output()
            .expect("it runs");
        let begun = String::from_utf8_lossy(&done.stderr);
        let last = begun.lines().filter(|line| line.starts_with("step ")).count().saturating_sub(1);
        assert!(done.status.success(), "{begun}{}\n{}", typed.printed(last), typed.read("bbq.log"));
        typed
    }

    /// Standard output and standard error of a step.
    pub(crate) fn printed(&self, step: usize) -> String {
        self.read(&format!("step-{step}"))
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.directory.path().join(name)).unwrap_or_default()
    }
}

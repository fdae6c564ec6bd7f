//! The programs that the tests need: real clients, tools that take resources away from a server, a counter of instructions,
//! compilers for C and C++, Java, a browser, and Node. Go is in `go.rs`. And what it takes to build the sinks that are features.
//!
//! As root, this installs the missing ones from Debian's packages. Otherwise it names them, and the command that installs
//! them. It removes no installed package and starts no service.

use std::fs;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::step;

/// What librdkafka is built with, and OpenSSL, which it uses.
const TO_BUILD: [(&str, &str); 3] =
    [("/usr/include/openssl/ssl.h", "libssl-dev"), ("make", "make"), ("pkg-config", "pkg-config")];

/// A program, or a file by its whole path, and the Debian package that contains it.
const NEEDS: [(&str, &str); 30] = [
    ("/usr/include/spdlog/spdlog.h", "libspdlog-dev"),
    ("/usr/lib/python3/dist-packages/yaml/__init__.py", "python3-yaml"),
    ("/usr/sbin/logrotate", "logrotate"),
    ("/usr/sbin/nats-server", "nats-server"),
    ("/usr/sbin/nginx", "nginx"),
    ("c++", "g++"),
    ("chromedriver", "chromium-driver"),
    ("chromium", "chromium"),
    ("cmake", "cmake"),
    ("curl", "curl"),
    ("dig", "bind9-dnsutils"),
    ("fish", "fish"),
    ("groff", "groff-base"),
    ("java", "default-jre-headless"),
    ("journalctl", "systemd"),
    ("logger", "bsdutils"),
    ("loggen", "syslog-ng-core"),
    ("mvn", "maven"),
    ("nc", "netcat-openbsd"),
    ("node", "nodejs"),
    ("npm", "npm"),
    ("openssl", "openssl"),
    ("prlimit", "util-linux"),
    ("python3", "python3"),
    ("ss", "iproute2"),
    ("strace", "strace"),
    ("unshare", "util-linux"),
    ("valgrind", "valgrind"),
    ("zsh", "zsh"),
    ("zstd", "zstd"),
];
/// Debian has a package of its own for Python's environments, and that package has no program.
const VENV: (&str, &str) = ("python3 -m venv", "python3-venv");

/// `--no-remove`: syslog-ng-core would replace another system logger.
const INSTALL: [&str; 4] = ["install", "--yes", "--no-remove", "--no-install-recommends"];
/// The scripts of packages run this program before they start a service.
const POLICY: &str = "/usr/sbin/policy-rc.d";
const POLICY_NEVER: &str = "#!/bin/sh\nexit 101\n";

/// Installs missing programs as root, or returns an error that names them.
pub(crate) fn provide() -> Result<(), String> {
    let found = || missing(&search_path(), has_venv());
    install(&found)
}

/// The same for what packages are made with.
pub(crate) fn provide_to_pack(tools: &[(&'static str, &'static str)]) -> Result<(), String> {
    let tools = [&TO_BUILD[..], tools].concat();
    let found = || {
        let venv = (!has_venv()).then_some(VENV);
        missing_of(&tools, &search_path()).into_iter().chain(venv).collect()
    };
    install(&found)
}

/// The same for programs alone.
pub(crate) fn provide_programs(programs: &[(&'static str, &'static str)]) -> Result<(), String> {
    let found = || missing_of(programs, &search_path());
    install(&found)
}

/// The same for what is needed to build every sink.
pub(crate) fn provide_to_build() -> Result<(), String> {
    let found = || missing_of(&TO_BUILD, &search_path());
    install(&found)
}

fn install(missing: &dyn Fn() -> Vec<(&'static str, &'static str)>) -> Result<(), String> {
    let look_again = missing;
    let missing = missing();
    if missing.is_empty() {
        return Ok(());
    }
    let packages = packages(&missing);
    let names: Vec<&str> = missing.iter().map(|(program, _)| *program).collect();
    eprintln!("xtask: missing: {}", names.join(", "));
    let command = format!("apt-get update && apt-get {} {}", INSTALL.join(" "), packages.join(" "));
    let by_hand = |why: &str| {
        format!(
            "{why}; on Debian, install them as root:\n    {command}\n(if apt-get refuses to remove another \
             system logger, run the tests in a container; `cargo test --workspace --release --features full` runs without \
             these programs, and the tests that need them fail)"
        )
    };
    if !search_path().iter().any(|directory| is_program(&directory.join("apt-get"))) {
        return Err(by_hand("there is no apt-get"));
    }
    if !is_root() {
        return Err(by_hand("only root can install them"));
    }
    let policy = Policy::never();
    let quiet = [("DEBIAN_FRONTEND", "noninteractive"), ("RUNLEVEL", "1")];
    let installed = step::run(&quiet, "apt-get", &["update"])
        .and_then(|()| step::run(&quiet, "apt-get", &[&INSTALL[..], &packages].concat()));
    drop(policy);
    installed.map_err(|problem| by_hand(&problem))?;
    match look_again().first() {
        None => Ok(()),
        Some((needed, package)) => Err(format!("{package} is installed, but {needed} is not found")),
    }
}

fn search_path() -> Vec<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect()
}

fn missing(path: &[PathBuf], has_venv: bool) -> Vec<(&'static str, &'static str)> {
    let programs = [missing_of(&TO_BUILD, path), missing_of(&NEEDS, path)].concat();
    programs.into_iter().chain((!has_venv).then_some(VENV)).collect()
}

fn missing_of(needs: &[(&'static str, &'static str)], path: &[PathBuf]) -> Vec<(&'static str, &'static str)> {
    let is_missing = |(needed, _): &(&str, &str)| match needed.starts_with('/') {
        true => !Path::new(needed).is_file(),
        false => !path.iter().any(|directory| is_program(&directory.join(needed))),
    };
    needs.iter().copied().filter(is_missing).collect()
}

/// Whether Python can make environments that have pip.
fn has_venv() -> bool {
    let look = Command::new("python3").args(["-c", "import ensurepip, venv"]).stderr(Stdio::null()).status();
    look.is_ok_and(|status| status.success())
}

/// Each package once, in the order of the list.
fn packages(missing: &[(&'static str, &'static str)]) -> Vec<&'static str> {
    let mut packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// The user of this process: the owner of its directory in /proc.
pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}

/// While it lives, no package starts a service. An existing policy stays.
struct Policy {
    ours: bool,
}

impl Policy {
    fn never() -> Policy {
        let mut new = fs::OpenOptions::new();
        let file = new.write(true).create_new(true).mode(0o755).open(POLICY);
        let written = file.and_then(|mut file| std::io::Write::write_all(&mut file, POLICY_NEVER.as_bytes()));
        Policy { ours: written.is_ok() }
    }
}

impl Drop for Policy {
    fn drop(&mut self) {
        if self.ours
            && let Err(error) = fs::remove_file(POLICY)
        {
            eprintln!("xtask: cannot remove {POLICY} ({error}); remove it by hand");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_on_the_path_is_missing_and_each_package_is_named_once() {
        let nowhere = missing(&[PathBuf::from("/proc/self/nowhere")], false);
        let programs = NEEDS.iter().filter(|(needed, _)| !needed.starts_with('/')).count() + 1;
        assert!(nowhere.len() >= programs, "{nowhere:?}");
        let all = [
            "bind9-dnsutils",
            "bsdutils",
            "chromium",
            "chromium-driver",
            "cmake",
            "curl",
            "default-jre-headless",
            "fish",
            "g++",
            "groff-base",
            "iproute2",
            "libspdlog-dev",
            "logrotate",
            "maven",
            "nats-server",
            "netcat-openbsd",
            "nginx",
            "nodejs",
            "npm",
            "openssl",
            "python3",
            "python3-yaml",
            "strace",
            "syslog-ng-core",
            "systemd",
            "util-linux",
            "valgrind",
            "zsh",
            "zstd",
        ];
        assert_eq!(packages(&NEEDS), all);
    }

    #[test]
    fn a_program_is_a_file_that_may_be_run() {
        assert!(is_program(Path::new("/bin/sh")));
        assert!(!is_program(Path::new("/bin")));
        assert!(!is_program(Path::new("/proc/self/status")));
    }
}

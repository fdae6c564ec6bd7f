//! An installed libbbq, and C and C++ programs that are compiled with it.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::run;

/// Warnings are errors, as the headers are compiled in other people's projects.
const FLAGS: [&str; 5] = ["-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror"];

/// Where the crate of the C library is.
pub fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bindings/c")
}

/// A program that the tests of the C library have.
pub fn program(name: &str) -> PathBuf {
    sources().join("tests/programs").join(name)
}

/// An installed library.
pub struct Library {
    directory: TempDir,
}

impl Library {
    /// Installs the library that cargo has built for this test, as it is a dependency, beside the test itself.
    pub fn install() -> Library {
        let directory = tempfile::tempdir().expect("a directory");
        let test = std::env::current_exe().expect("a test is a file");
        let mut install = Command::new("sh");
        install.arg(sources().join("install.sh"));
        install.arg("--prefix").arg(directory.path().join("prefix"));
        install.arg("--libraries").arg(test.parent().expect("it is in a directory"));
        run(&mut install, b"");
        Library { directory }
    }

    pub fn prefix(&self) -> PathBuf {
        self.directory.path().join("prefix")
    }

    /// The directory for what is built.
    pub fn scratch(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The output of pkg-config for packages.
    fn flags(&self, packages: &[&str], options: &[&str]) -> Vec<String> {
        let mut asked = Command::new("pkg-config");
        asked.env("PKG_CONFIG_PATH", self.prefix().join("lib/pkgconfig"));
        asked.args(["--cflags", "--libs"]).args(options).args(packages);
        let answer = String::from_utf8(run(&mut asked, b"").stdout).expect("flags are text");
        answer.split_whitespace().map(str::to_owned).collect()
    }

    /// Compiles a program as its users would, with packages of pkg-config, and returns its path.
    pub fn compile(&self, source: &Path, packages: &[&str]) -> PathBuf {
        // The library is in no directory where the system looks for libraries.
        let found = format!("-Wl,-rpath,{}", self.prefix().join("lib").display());
        self.compile_with(source, "shared", &[self.flags(packages, &[]), vec![found]].concat())
    }

    /// The same for a program that needs no library to run, not even the system's.
    pub fn compile_static(&self, source: &Path) -> PathBuf {
        self.compile_with(
            source,
            "static",
            &[vec!["-static".to_owned()], self.flags(&["bbq"], &["--static"])].concat(),
        )
    }

    fn compile_with(&self, source: &Path, way: &str, flags: &[String]) -> PathBuf {
        let is_c = source.extension().is_some_and(|extension| extension == "c");
        let (compiler, standard) = if is_c { ("cc", "-std=c11") } else { ("c++", "-std=c++17") };
        let name = source.file_name().expect("a file").to_string_lossy().replace('.', "_");
        let to = self.scratch(&format!("{name}_{way}"));
        let mut command = Command::new(compiler);
        command.arg(standard).args(FLAGS).arg(source).arg("-o").arg(&to).args(flags).arg("-pthread");
        run(&mut command, b"");
        to
    }
}

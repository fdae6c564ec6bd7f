//! The senders with OpenTelemetry's SDKs, and its decoder, built once, in the target directory.
//!
//! The first build asks for Go modules and npm packages, of the versions and with the checksums of go.sum and package-lock.json, and for
//! the Python packages of requirements.txt.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

/// Where Go may be beside the path: `cargo xtask test` installs it to the first place, which counts before the path, and Go's own archive
/// is unpacked to the second.
const GO_PLACES: [&str; 2] = [concat!(env!("CARGO_TARGET_TMPDIR"), "/../go/bin/go"), "/usr/local/go/bin/go"];

/// The program of `go/main.go`.
pub(super) fn go() -> Command {
    static BUILT: LazyLock<PathBuf> = LazyLock::new(|| {
        let (directory, _lock) = directory("go");
        let program = directory.join("sender");
        let mut build = Command::new(go_program());
        build.args(["build", "-buildvcs=false", "-o"]).arg(&program).arg(".").current_dir(sources("go"));
        // This module alone, with the versions of its go.mod.
        complete(build.envs([("GOWORK", "off"), ("GOFLAGS", "-mod=readonly")]), "Go modules (GOPROXY)");
        program
    });
    Command::new(&*BUILT)
}

fn go_program() -> &'static Path {
    let is_program = |place: &&Path| place.is_file();
    let [installed, usual] = GO_PLACES.map(Path::new);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).any(|directory| directory.join("go").is_file());
    let named = on_path.then_some(Path::new("go"));
    Some(installed)
        .filter(is_program)
        .or(named)
        .or(Some(usual).filter(is_program))
        .expect("go is missing: `cargo xtask test` installs it")
}

/// Node with `node/main.mjs`.
pub(super) fn node() -> Command {
    static BUILT: LazyLock<PathBuf> = LazyLock::new(|| {
        let (directory, _lock) = directory("node");
        for file in ["package.json", "package-lock.json", "main.mjs"] {
            fs::copy(sources("node").join(file), directory.join(file)).expect("a copy");
        }
        // The lock file of what is installed, written last.
        let installed = directory.join("installed");
        let wanted = fs::read(directory.join("package-lock.json")).expect("it was copied");
        if fs::read(&installed).ok().as_ref() != Some(&wanted) {
            let mut install = Command::new("npm");
            install.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(&directory);
            complete(&mut install, "npm packages (npm config get registry)");
            fs::write(&installed, wanted).expect("it is written");
        }
        directory.join("main.mjs")
    });
    let mut node = Command::new("node");
    node.arg(&*BUILT);
    node
}

/// Python with `python/compare.py`.
pub(super) fn python() -> Command {
    static BUILT: LazyLock<PathBuf> = LazyLock::new(|| {
        let (directory, _lock) = directory("python");
        let python = directory.join("bin/python");
        let installed = directory.join("installed");
        let list = sources("python").join("requirements.txt");
        let wanted = fs::read(&list).expect("requirements.txt");
        if fs::read(&installed).ok().as_ref() != Some(&wanted) {
            complete(Command::new("python3").args(["-m", "venv"]).arg(&directory), "python3-venv");
            let mut install = Command::new(&python);
            install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"]);
            complete(install.arg(&list), "Python packages (PIP_INDEX_URL)");
            fs::write(&installed, wanted).expect("it is written");
        }
        python
    });
    let mut python = Command::new(&*BUILT);
    python.arg(sources("python").join("compare.py"));
    python
}

fn sources(language: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/senders/opentelemetry").join(language)
}

/// The directory for what is built, and its lock: another run of the tests may use the same target directory.
fn directory(language: &str) -> (PathBuf, fs::File) {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("opentelemetry").join(language);
    fs::create_dir_all(&directory).expect("a directory");
    let lock = fs::File::create(directory.join("lock")).expect("a file");
    lock.lock().expect("a lock");
    (directory, lock)
}

/// Runs a command to its end; if the command fails, says what it may lack.
fn complete(command: &mut Command, downloads: &str) {
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|error| {
        panic!("{command:?} cannot be started ({error}); `cargo xtask test` installs it")
    });
    assert!(
        output.status.success(),
        "{command:?} failed: it must be able to get {downloads}, once\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

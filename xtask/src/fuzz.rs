//! Fuzz targets, with libFuzzer. Any compiler that builds the product works, as the instrumentation is a pass of LLVM.

use std::path::Path;

use crate::step;

/// Coverage by counters and comparisons, as in cargo-fuzz; no sanitizer, as the code is safe.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
     -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1";

/// Builds all targets, and runs one for `seconds`. Inputs that make it fail are in fuzz/artifacts.
pub(crate) fn run(root: &Path, target: &str, seconds: &str) -> Result<(), String> {
    let triple = host()?;
    // With a target, build scripts and macros are built without instrumentation.
    let build = ["build", "--release", "--manifest-path", "fuzz/Cargo.toml", "--bins", "--target", &triple];
    step::cargo(&[("RUSTFLAGS", FLAGS)], &build)?;
    let corpus = root.join("fuzz/corpus").join(target);
    let artifacts = root.join("fuzz/artifacts").join(target);
    // New inputs go to this directory, which is not in the repository.
    let found = root.join("fuzz/target/corpus").join(target);
    for directory in [&corpus, &artifacts, &found] {
        std::fs::create_dir_all(directory)
            .map_err(|error| format!("cannot make {}: {error}", directory.display()))?;
    }
    let program = format!("fuzz/target/{triple}/release/{target}");
    let arguments = [
        format!("-max_total_time={seconds}"),
        "-timeout=20".to_owned(),
        "-rss_limit_mb=2048".to_owned(),
        format!("-artifact_prefix={}/", artifacts.display()),
        found.display().to_string(),
        corpus.display().to_string(),
    ];
    step::run(&[], &program, &arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The target triple that this compiler builds for.
fn host() -> Result<String, String> {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let output = std::process::Command::new(&rustc).arg("-vV").output();
    let output = output.map_err(|error| format!("cannot run {rustc}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| format!("{rustc} -vV does not name a host"))
}

//! If this fails, a C program is compiled against functions that the library does not have, or has differently.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::path::Path;

/// If this is set, the test writes the header instead of comparing it.
const WRITE: &str = "BBQ_WRITE_HEADER";
/// The order in the header: a type stands before its users.
const SOURCES: [&str; 10] = [
    "version.rs",
    "failure.rs",
    "choices.rs",
    "notice.rs",
    "reconnect.rs",
    "options.rs",
    "handle.rs",
    "counters.rs",
    "progress.rs",
    "receive.rs",
];

fn generated(here: &Path) -> String {
    let configuration = cbindgen::Config::from_file(here.join("cbindgen.toml")).expect("a configuration");
    let builder = cbindgen::Builder::new().with_config(configuration);
    let builder = SOURCES.iter().fold(builder, |builder, name| builder.with_src(here.join("src").join(name)));
    let mut text = Vec::new();
    builder.generate().expect("the sources can be read").write(&mut text);
    String::from_utf8(text).expect("cbindgen writes text")
}

#[test]
fn the_header_is_what_the_sources_say() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (path, generated) = (here.join("include/bbq.h"), generated(here));
    if std::env::var_os(WRITE).is_some() {
        fs::write(&path, &generated).expect("it can be written");
    }
    let present = fs::read_to_string(&path).unwrap_or_default();
    let first = generated.lines().zip(present.lines()).find(|(generated, present)| generated != present);
    assert!(
        generated == present,
        "include/bbq.h is not made from src; the first lines that differ: {first:?}\nmake it anew with\n    \
         {WRITE}=1 cargo test --release -p bbq-c --test header"
    );
}

//! Bills of materials: each crate in a program, with version, license and checksum, in the format of CycloneDX.

use super::disk::{text, text_of, write};
use super::material::Material;
use crate::step;

const TOOL: &str = "cargo-cyclonedx@0.5.9";
/// Written beside each manifest of the workspace, and taken from there.
const NAME: &str = "bill-of-materials";

/// Of the program with each sink, of the static one, which also has OpenSSL in itself, and of libbbq. The wheel brings its own.
pub(super) fn make(material: &Material) -> Result<(), String> {
    let tools = text(&material.tools());
    let program = material.tools().join("bin/cargo-cyclonedx");
    if !program.exists() {
        step::cargo(&[], &["install", "--quiet", "--locked", "--root", &tools, TOOL])?;
    }
    let Material { version, machine, .. } = material;
    let program = text(&program);
    let packaged = [("crates/bbq", format!("bbq-{version}")), ("bindings/c", format!("libbbq-{version}"))];
    write_bills(material, &program, &[], &packaged)?;
    let vendored = ["--features", "vendored", "--target", machine.musl];
    let name = format!("bbq-{version}-{}-linux-static", machine.name);
    write_bills(material, &program, &vendored, &[("crates/bbq", name)])
}

/// Each crate of `bills`, by its directory, and the name of its bill.
fn write_bills(
    material: &Material,
    program: &str,
    options: &[&str],
    bills: &[(&str, String)],
) -> Result<(), String> {
    let every_sink = ["cyclonedx", "--quiet", "--format", "json", "--features", step::EVERY_SINK];
    let files = ["--manifest-path", "crates/bbq/Cargo.toml", "--override-filename", NAME];
    let time = [("SOURCE_DATE_EPOCH", material.time.as_str())];
    let made = step::run(&time, program, &[&every_sink[..], &files, options].concat());
    let written = bills.iter().try_for_each(|(directory, name)| {
        let from = material.root.join(directory).join(format!("{NAME}.json"));
        write(
            &material.directory().join(format!("{name}.cdx.json")),
            &without_directory(&text_of(&from)?, material),
        )
    });
    let remove = format!("find bindings crates xtask -maxdepth 2 -name {NAME}.json -delete");
    step::run(&[], "sh", &["-c", &remove])?;
    made.and(written)
}

/// Where the clone stood on this machine is nobody's concern.
fn without_directory(bill: &str, material: &Material) -> String {
    bill.replace(&format!("file://{}", text(&material.root)), "file://.")
}

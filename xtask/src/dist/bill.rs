//! The bill of materials of the program: each crate in it, with version, license and checksum, in the format of CycloneDX.

use std::fs;

use super::disk::text;
use super::material::Material;
use crate::step;

const TOOL: &str = "cargo-cyclonedx@0.5.9";
/// Written beside each manifest of the workspace, and taken from there.
const NAME: &str = "bill-of-materials";

pub(super) fn make(material: &Material) -> Result<(), String> {
    let tools = text(&material.tools());
    let program = material.tools().join("bin/cargo-cyclonedx");
    if !program.exists() {
        step::cargo(&[], &["install", "--quiet", "--locked", "--root", &tools, TOOL])?;
    }
    let options = ["cyclonedx", "--quiet", "--format", "json", "--features", step::EVERY_SINK];
    let files = ["--manifest-path", "crates/bbq/Cargo.toml", "--override-filename", NAME];
    let made = step::run(
        &[("SOURCE_DATE_EPOCH", material.time.as_str())],
        &text(&program),
        &[&options[..], &files].concat(),
    );
    let from = material.root.join("crates/bbq").join(format!("{NAME}.json"));
    let to = material.directory().join(format!("bbq-{}.cdx.json", material.version));
    let written =
        fs::read_to_string(&from).and_then(|bill| fs::write(&to, without_directory(&bill, material)));
    let written =
        written.map_err(|error| format!("cannot make {} of {}: {error}", to.display(), from.display()));
    let remove = format!("find bindings crates xtask -maxdepth 2 -name {NAME}.json -delete");
    step::run(&[], "sh", &["-c", &remove])?;
    made?;
    written
}

/// Where the clone stood on this machine is nobody's concern.
fn without_directory(bill: &str, material: &Material) -> String {
    bill.replace(&format!("file://{}", text(&material.root)), "file://.")
}

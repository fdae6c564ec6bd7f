//! The units as systemd sees them, and how much a break-in into the server could reach.

use std::fs;
use std::process::Command;

use super::disk::{create, text, text_of, write};
use super::material::Material;
use crate::step;

/// `systemd-analyze security`, from 0 (nothing is exposed) to 10, in tenths.
const EXPOSURE_TENTHS_MAX: u32 = 20;

pub(super) fn check(material: &Material) -> Result<(), String> {
    step::run(&[], &text(&material.stage().join("bbq")), &["check", "packaging/bbq.toml"])?;
    let units = material.stage().join("units");
    create(&units)?;
    // Its program is not installed here.
    let program = text(&material.stage().join("bbq"));
    let service = text_of(&material.root.join("packaging/bbq.service"))?.replace("/usr/bin/bbq", &program);
    let [service_file, socket_file] = ["bbq.service", "bbq.socket"].map(|name| units.join(name));
    write(&service_file, &service)?;
    fs::copy(material.root.join("packaging/bbq.socket"), &socket_file)
        .map_err(|error| format!("cannot copy packaging/bbq.socket: {error}"))?;
    let [service_file, socket_file] = [text(&service_file), text(&socket_file)];
    verify(&[&service_file, &socket_file])?;
    let limit = format!("--threshold={EXPOSURE_TENTHS_MAX}");
    step::run(&[], "systemd-analyze", &["security", "--offline=yes", "--no-pager", &limit, &service_file])
        .map_err(|problem| format!("{problem}: the service is more exposed than it may be"))
}

/// systemd ignores a line that it does not understand, with a warning: here that is a failure.
fn verify(units: &[&str]) -> Result<(), String> {
    let mut verify = Command::new("systemd-analyze");
    let output = verify.args(["verify", "--man=no"]).args(units).output();
    let output = output.map_err(|error| format!("cannot run systemd-analyze: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let ours: Vec<&str> = said.lines().filter(|line| line.contains("bbq")).collect();
    if output.status.success() && ours.is_empty() {
        eprintln!("xtask: systemd-analyze verify finds nothing");
        return Ok(());
    }
    Err(format!("systemd-analyze verify: {said}"))
}

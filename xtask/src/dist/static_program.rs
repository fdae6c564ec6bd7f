//! The program for any Linux, linked with musl: an archive, and the directory of the container image.

use std::fs;

use super::disk::{create, text};
use super::material::Material;
use super::symbols;
use crate::step;

const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";

pub(super) fn make(material: &Material) -> Result<(), String> {
    let target = material.machine.musl;
    step::run(&[], "rustup", &["target", "add", target])
        .map_err(|problem| format!("{problem}; the static program needs Rust's library for {target}"))?;
    let features = ["--features", step::EVERY_SINK, "--features", "vendored", "--target", target];
    step::cargo(
        &step::WITH_LINES,
        &[&["build", "--release", "--locked", "-p", step::PACKAGE][..], &features].concat(),
    )?;
    let built = material.root.join(step::target_directory()).join(target).join("release/bbq");
    let name = format!("bbq-{}-{}-linux-static", material.version, material.machine.name);
    let folder = material.stage().join(&name);
    create(&folder)?;
    symbols::strip(material, &text(&built), &text(&folder.join("bbq")))?;
    is_static(&text(&folder.join("bbq")))?;
    let [from, to] = [material.stage(), &folder].map(text);
    let fill = "cp -r \"$0/man\" \"$0/completions\" LICENSE-APACHE LICENSE-MIT README.md packaging/bbq.service packaging/bbq.socket \
                packaging/sysusers.conf packaging/bbq.toml \"$1\"";
    step::run(&[], "sh", &["-c", fill, &from, &to])?;
    let archive = text(&material.directory().join(format!("{name}.tar.gz")));
    let time = format!("--mtime=@{}", material.time);
    let options = ["--create", "--gzip", "--file", &archive, "--sort=name", "--owner=0", "--group=0", &time];
    step::run(&[], "tar", &[&options[..], &["--directory", &from, &name]].concat())?;
    container(material, &text(&folder.join("bbq")))
}

fn is_static(program: &str) -> Result<(), String> {
    let needs = "! readelf --dynamic \"$0\" | grep NEEDED";
    step::run(&[], "sh", &["-c", needs, program])
}

fn container(material: &Material, program: &str) -> Result<(), String> {
    let container = material.directory().join("container");
    create(&container.join("data"))?;
    let copy = |from: &str, name: &str| {
        fs::copy(from, container.join(name)).map_err(|error| format!("cannot copy {from}: {error}")).map(drop)
    };
    copy(program, "bbq")?;
    copy("packaging/Containerfile", "Containerfile")?;
    copy(CERTIFICATES, "ca-certificates.crt")
}

//! What a release consists of, in target/dist: packages for Debian and Fedora, a static program, the directory of a container image, crates,
//! a wheel, bills of materials and checksums.
//!
//! One step that fails does not keep the others from being made; the task then fails at its end, and says what is missing.

mod bill;
mod disk;
mod libraries;
mod linux_packages;
mod machine;
mod material;
mod programs;
pub(crate) mod published;
mod shlibs;
mod static_program;
mod symbols;
mod unit;
mod wheel;

use std::path::Path;

use crate::{needs, step};
use disk::{empty, text};
use material::Material;

/// A program, and the Debian package that contains it.
const NEEDS: [(&str, &str); 9] = [
    ("gcc", "gcc"),
    ("git", "git"),
    ("musl-gcc", "musl-tools"),
    ("objcopy", "binutils"),
    ("patchelf", "patchelf"),
    ("perl", "perl"),
    ("python3", "python3"),
    ("rpm", "rpm"),
    ("systemd-analyze", "systemd"),
];
/// The same for the test of an installation.
const NEEDS_TO_INSTALL: [(&str, &str); 12] = [
    ("/lib/systemd/systemd", "systemd"),
    ("curl", "curl"),
    ("dpkg", "dpkg"),
    ("findmnt", "util-linux"),
    ("git", "git"),
    ("ip", "iproute2"),
    ("nsenter", "util-linux"),
    ("objcopy", "binutils"),
    ("pgrep", "procps"),
    ("rpm", "rpm"),
    ("systemd-analyze", "systemd"),
    ("unshare", "util-linux"),
];
const INSTALLATION: &str = "packaging/test/install.sh";

pub(crate) fn run(root: &Path) -> Result<(), String> {
    needs::provide_to_pack(&NEEDS)?;
    let material = Material::fresh(root)?;
    programs::build(&material)?;
    let mut missing = Vec::new();
    let mut part = |name: &str, done: Result<(), String>| {
        if let Err(problem) = done {
            eprintln!("xtask: {name}: {problem}");
            missing.push(format!("  {name}: {problem}"));
        }
    };
    part("the unit of systemd", unit::check(&material));
    part("packages of Debian and Fedora", linux_packages::make(&material));
    part("the static program", static_program::make(&material));
    part("the wheel", wheel::make(&material));
    part("the crates", published::make(&material));
    part("the bills of materials", bill::make(&material));
    checksums(&material)?;
    if missing.is_empty() { Ok(()) } else { Err(format!("not made:\n{}", missing.join("\n"))) }
}

/// Installs what `run` has made, upgrades over it and purges it, in a view of this machine that is thrown away.
pub(crate) fn test(root: &Path) -> Result<(), String> {
    provide_to_install()?;
    install_and_upgrade(&Material::made(root)?)
}

/// The same with packages of the program that `cargo xtask test` has built.
pub(crate) fn test_as_tested(root: &Path) -> Result<(), String> {
    provide_to_install()?;
    let material = Material::as_tested(root)?;
    programs::stage_program(&material)?;
    unit::check(&material)?;
    linux_packages::make_to_install(&material, &material.version, material.directory())?;
    install_and_upgrade(&material)
}

fn provide_to_install() -> Result<(), String> {
    if !needs::is_root() {
        return Err("only root can make the view of the machine that the packages are installed into: run this test as root"
            .to_owned());
    }
    needs::provide_programs(&NEEDS_TO_INSTALL)
}

fn install_and_upgrade(material: &Material) -> Result<(), String> {
    let (newer, newer_directory) = (format!("{}.1", material.version), material.newer());
    empty(&newer_directory)?;
    linux_packages::make_to_install(material, &newer, &newer_directory)?;
    let [directory, newer_directory] = [material.directory(), &newer_directory].map(text);
    step::run(&[], "bash", &[INSTALLATION, &directory, &newer_directory, &material.version, &newer])
}

fn checksums(material: &Material) -> Result<(), String> {
    let sums = "cd \"$0\" && rm -f SHA256SUMS && find . -type f -printf '%P\\n' | sort | xargs sha256sum > ../SHA256SUMS \
                && mv ../SHA256SUMS . && ls -l --human-readable && cat SHA256SUMS";
    step::run(&[], "sh", &["-c", sums, &text(material.directory())])
}

//! Where things are while a release is made.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::disk::{empty, text_of};
use super::machine::{self, Machine};
use crate::step;

pub(super) struct Material {
    pub(super) root: PathBuf,
    pub(super) version: String,
    pub(super) machine: &'static Machine,
    /// Seconds since 1970 of the commit, which all files in packages get, so that the same commit gives the same packages.
    pub(super) time: String,
    directory: PathBuf,
    stage: PathBuf,
    work: PathBuf,
}

impl Material {
    /// An empty directory to make a release in.
    pub(super) fn fresh(root: &Path) -> Result<Material, String> {
        Material::made(root)?.emptied()
    }

    /// A release that was made before.
    pub(super) fn made(root: &Path) -> Result<Material, String> {
        let target = root.join(step::target_directory());
        Material::in_directories(root, target.join("dist"), target.join("dist-work/stage"))
    }

    /// An empty directory for packages of what `cargo xtask test` has built. A release that was made before stays.
    pub(super) fn as_tested(root: &Path) -> Result<Material, String> {
        let work = root.join(step::target_directory()).join("dist-work");
        Material::in_directories(root, work.join("tested"), work.join("tested-stage"))?.emptied()
    }

    fn in_directories(root: &Path, directory: PathBuf, stage: PathBuf) -> Result<Material, String> {
        let manifest = text_of(&root.join("Cargo.toml"))?;
        let version = manifest.lines().find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'));
        let version = version.ok_or("Cargo.toml has no version")?.to_owned();
        let log = Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root).output();
        let log =
            log.map_err(|error| format!("cannot run git, which knows the time of the commit: {error}"))?;
        let time = String::from_utf8_lossy(&log.stdout).trim().to_owned();
        if time.is_empty() {
            return Err(format!(
                "git does not tell the time of the commit: {}",
                String::from_utf8_lossy(&log.stderr)
            ));
        }
        let work = root.join(step::target_directory()).join("dist-work");
        Ok(Material {
            root: root.to_owned(),
            version,
            machine: machine::this()?,
            time,
            directory,
            stage,
            work,
        })
    }

    fn emptied(self) -> Result<Material, String> {
        empty(&self.directory)?;
        empty(&self.stage)?;
        Ok(self)
    }

    /// The result.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Packages of a newer version, for the test of an upgrade.
    pub(super) fn newer(&self) -> PathBuf {
        self.beside("newer")
    }

    /// What goes into packages.
    pub(super) fn stage(&self) -> &Path {
        &self.stage
    }

    /// Programs that make packages; they stay for the next time.
    pub(super) fn tools(&self) -> PathBuf {
        self.beside("tools")
    }

    pub(super) fn beside(&self, name: &str) -> PathBuf {
        self.work.join(name)
    }
}

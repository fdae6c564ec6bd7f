//! Where things are while a release is made.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::disk::{create, text_of};
use super::machine::{self, Machine};
use crate::step;

pub(super) struct Material {
    pub(super) root: PathBuf,
    pub(super) version: String,
    pub(super) machine: &'static Machine,
    /// Seconds since 1970 of the commit, which all files in packages get, so that the same commit gives the same packages.
    pub(super) time: String,
    directory: PathBuf,
}

impl Material {
    /// An empty directory to make a release in.
    pub(super) fn fresh(root: &Path) -> Result<Material, String> {
        let material = Material::made(root)?;
        for directory in [&material.directory, &material.stage()] {
            if directory.exists() {
                fs::remove_dir_all(directory)
                    .map_err(|error| format!("cannot empty {}: {error}", directory.display()))?;
            }
            create(directory)?;
        }
        Ok(material)
    }

    /// A release that was made before.
    pub(super) fn made(root: &Path) -> Result<Material, String> {
        let manifest = text_of(&root.join("Cargo.toml"))?;
        let version = manifest.lines().find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'));
        let version = version.ok_or("Cargo.toml has no version")?.to_owned();
        let log = Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root).output();
        let log =
            log.map_err(|error| format!("cannot run git, which knows the time of the commit: {error}"))?;
        let time = String::from_utf8_lossy(&log.stdout).trim().to_owned();
        let directory = root.join(step::target_directory()).join("dist");
        Ok(Material { root: root.to_owned(), version, machine: machine::this()?, time, directory })
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
    pub(super) fn stage(&self) -> PathBuf {
        self.beside("stage")
    }

    /// Programs that make packages; they stay for the next time.
    pub(super) fn tools(&self) -> PathBuf {
        self.beside("tools")
    }

    pub(super) fn beside(&self, name: &str) -> PathBuf {
        self.directory.with_file_name("dist-work").join(name)
    }

    pub(super) fn built(&self, name: &str) -> PathBuf {
        self.root.join(step::target_directory()).join("release").join(name)
    }
}

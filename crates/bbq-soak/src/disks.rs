//! A small disk for the data directory. The disk can be filled, and its writes can be made to fail. It is a file system in a file
//! on a file system in memory. When the file system in memory is full, writes to the other file system fail with EIO.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

/// Set for the second run of this program, in a mount namespace of its own.
const VARIABLE: &str = "BBQ_SOAK_HAS_OWN_MOUNTS";
/// The size of the data directory's file system: some segments of the largest size for each worker, and spares.
const DATA_MIB: u64 = 2048;
/// The size of the file system in memory.
const BACKING_MIB: u64 = 3072;

/// Whether this process has a mount namespace of its own.
pub(crate) fn has_own_mounts() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// Runs this program again in a mount namespace of its own. Returns the exit code.
pub(crate) fn run_in_own_mounts() -> Result<u8> {
    let program = std::env::current_exe()?;
    let mut command = Command::new("unshare");
    command.arg("--mount").arg(program).args(std::env::args_os().skip(1)).env(VARIABLE, "yes");
    let status = command.status().context("cannot start unshare; run as root, or with --disk none")?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

pub(crate) struct Disks {
    backing: PathBuf,
    data: PathBuf,
}

impl Disks {
    /// Mounts both file systems; `data` is on the small disk.
    pub(crate) fn mount(directory: &Path) -> Result<Disks> {
        let disks = Disks { backing: directory.join("backing"), data: directory.join("disk") };
        fs::create_dir_all(&disks.backing)?;
        fs::create_dir_all(&disks.data)?;
        run(Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={BACKING_MIB}m"), "none"])
            .arg(&disks.backing))?;
        let image = disks.backing.join("image");
        File::create(&image)?.set_len(DATA_MIB * 1024 * 1024)?;
        // Without a journal: a failed write of a journal would make the file system read-only until it is repaired.
        run(Command::new("mkfs.ext4")
            .args(["-q", "-m", "0", "-O", "^has_journal", "-E", "lazy_itable_init=0"])
            .arg(&image))?;
        run(Command::new("mount").args(["-o", "loop,errors=continue"]).arg(&image).arg(&disks.data))?;
        Ok(disks)
    }

    /// Fills the data directory's file system.
    pub(crate) fn fill(&self) -> Result<Ballast> {
        Ballast::fill(&self.data)
    }

    /// Fills the file system in memory: writes to blocks that were never written fail with EIO.
    pub(crate) fn break_writes(&self) -> Result<Ballast> {
        Ballast::fill(&self.backing)
    }

    /// Copies the files of the small disk to a directory that outlives this process.
    pub(crate) fn keep(&self, directory: &Path) -> Result<()> {
        run(Command::new("cp").arg("-a").arg(self.data.join("data")).arg(directory.join("data")))
    }

    pub(crate) fn data(&self) -> &Path {
        &self.data
    }
}

impl Drop for Disks {
    fn drop(&mut self) {
        // The mounts also end with the namespace.
        let _ended = run(Command::new("umount").arg("--lazy").arg(&self.data));
        let _ended = run(Command::new("umount").arg("--lazy").arg(&self.backing));
    }
}

/// A file that fills a disk until it is dropped.
pub(crate) struct Ballast(PathBuf);

impl Ballast {
    fn fill(directory: &Path) -> Result<Ballast> {
        let ballast = Ballast(directory.join("ballast"));
        let mut file = File::create(&ballast.0)?;
        for block in [1024 * 1024, 4096] {
            let bytes = vec![1; block];
            loop {
                match file.write_all(&bytes) {
                    Ok(()) => {}
                    Err(error) if error.kind() == ErrorKind::StorageFull => break,
                    Err(error) => return Err(error).context("cannot fill the disk"),
                }
            }
        }
        Ok(ballast)
    }
}

impl Drop for Ballast {
    fn drop(&mut self) {
        let _gone = fs::remove_file(&self.0);
    }
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

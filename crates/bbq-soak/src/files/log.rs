//! A file of numbered lines that is rotated.
//!
//! A write ends within a line at times, as that of a program with a buffer does; the rest comes with the next one.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use super::books::Books;
use super::kind::Kind;
use crate::message::Message;
use crate::random::Random;

/// How often a write ends within a line, in per cent.
const CUT_PERCENT: u64 = 40;
/// The most lines that a program writes to the old file after a rename, or between a copy and a truncation.
const LATE_LINES_MAX: u64 = 30;

pub(super) struct Log {
    pub(super) kind: Kind,
    path: PathBuf,
    name: String,
    file: File,
    run: u32,
    /// The part of the last line that is not written yet.
    rest: Vec<u8>,
    files: u64,
}

/// What is known of all files.
#[derive(Default)]
pub(super) struct Disk {
    /// Of files that were there earlier.
    used: std::collections::BTreeSet<u64>,
    /// New files with an inode of an earlier one.
    pub(super) used_again: u64,
}

impl Log {
    pub(super) fn new(directory: &Path, number: u64, books: &mut Books, disk: &mut Disk) -> Result<Log> {
        let kind = Kind::ALL[number as usize % Kind::ALL.len()];
        let name = format!("app-{number:03}.log");
        let path = directory.join(kind.name()).join(&name);
        let file = create(&path, disk)?;
        let run = books.begin(kind, &format!("{name}, file 1, {}", kind.title()), true);
        Ok(Log { kind, path, name, file, run, rest: Vec::new(), files: 1 })
    }

    pub(super) fn inode(&self) -> Result<u64> {
        Ok(self.file.metadata()?.ino())
    }

    pub(super) fn write(&mut self, lines: u64, books: &mut Books, random: &mut Random) -> Result<()> {
        let mut text = std::mem::take(&mut self.rest);
        let mut last = 0;
        for _ in 0..lines {
            last = text.len();
            Message { run: self.run, number: books.write(self.run) }.write(&mut text);
            text.push(b'\n');
        }
        if lines > 0 && random.percent(CUT_PERCENT) {
            self.rest = text.split_off(last + random.below((text.len() - last) as u64) as usize);
        }
        Ok(self.file.write_all(&text)?)
    }

    /// Completes the last line, as a program does before it closes its file.
    pub(super) fn complete(&mut self) -> Result<()> {
        let rest = std::mem::take(&mut self.rest);
        Ok(self.file.write_all(&rest)?)
    }

    /// Renames the file, and creates another one. Returns the new name and the inode of the old one.
    pub(super) fn rename(
        &mut self,
        books: &mut Books,
        disk: &mut Disk,
        random: &mut Random,
    ) -> Result<(PathBuf, u64)> {
        let (aside, inode) = (self.aside(), self.inode()?);
        fs::rename(&self.path, &aside)?;
        self.write(random.below(LATE_LINES_MAX), books, random)?;
        self.complete()?;
        self.begin(books, disk)?;
        Ok((aside, inode))
    }

    /// Deletes the file, and creates another one.
    pub(super) fn delete(&mut self, books: &mut Books, disk: &mut Disk) -> Result<()> {
        self.complete()?;
        fs::remove_file(&self.path)?;
        self.begin(books, disk)
    }

    pub(super) fn copy_and_truncate(&mut self, books: &mut Books, random: &mut Random) -> Result<()> {
        self.complete()?;
        fs::copy(&self.path, self.aside())?;
        self.begin_run(books, "between copy and truncation", false);
        self.write(random.below(LATE_LINES_MAX), books, random)?;
        self.complete()?;
        self.file.set_len(0)?;
        self.files += 1;
        self.begin_run(books, "", true);
        Ok(())
    }

    fn aside(&self) -> PathBuf {
        self.path.with_extension(format!("log.{:06}", self.files))
    }

    fn begin(&mut self, books: &mut Books, disk: &mut Disk) -> Result<()> {
        // The old one is closed first, so that its inode is free if nobody else has it open.
        self.file = File::open("/dev/null")?;
        self.file = create(&self.path, disk)?;
        self.files += 1;
        self.begin_run(books, "", true);
        Ok(())
    }

    fn begin_run(&mut self, books: &mut Books, what: &str, is_certain: bool) {
        let label = format!("{}, file {}, {} {what}", self.name, self.files, self.kind.title());
        self.run = books.begin(self.kind, &label, is_certain);
    }
}

fn create(path: &Path, disk: &mut Disk) -> Result<File> {
    let file = OpenOptions::new().create_new(true).append(true).open(path);
    let file = file.with_context(|| format!("cannot create {}", path.display()))?;
    disk.used_again += u64::from(!disk.used.insert(file.metadata()?.ino()));
    Ok(file)
}

/// Deletes what rotations have set aside.
pub(super) fn delete_set_aside(directory: &Path) -> Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "log") {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// As logrotate does it: a new file is written, and the old one is deleted.
pub(super) fn compress(path: &Path) -> Result<()> {
    let status =
        std::process::Command::new("gzip").arg("-1").arg(path).status().context("cannot run gzip")?;
    ensure!(status.success(), "gzip {}: {status}", path.display());
    Ok(())
}

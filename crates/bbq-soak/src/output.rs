//! Reads the file sink's output in the order in which it was written: first the files that were set aside, then the present file.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use anyhow::{Context as _, Result};

/// Reads new lines of the output. The server must be stopped: a running one may truncate its file after a kill.
pub(crate) struct Output {
    path: PathBuf,
    /// The inode of the present file at the last reading, and how many of its bytes were read.
    inode: u64,
    read_bytes: u64,
}

impl Output {
    pub(crate) fn new(path: PathBuf) -> Output {
        Output { path, inode: 0, read_bytes: 0 }
    }

    /// Calls `see` with each new line, without its line feed.
    pub(crate) fn read(&mut self, mut see: impl FnMut(&[u8])) -> Result<()> {
        let directory = self.path.parent().context("the output has a directory")?.to_owned();
        let name = self.path.file_name().context("the output has a name")?.to_string_lossy().into_owned();
        let mut set_aside = Vec::new();
        for entry in fs::read_dir(&directory)? {
            let entry = entry?.file_name().to_string_lossy().into_owned();
            // What was cut off an output whose sink was removed in the meantime, and that was not counted as delivered.
            let is_cut_off = entry.contains(".beyond-cursor-");
            if entry.starts_with(&format!("{name}.")) && !is_cut_off {
                set_aside.push(directory.join(entry));
            }
        }
        // The names have a time and a number with leading zeros, so they sort by age.
        set_aside.sort();
        for path in set_aside {
            self.read_file(&path, &mut see)?;
            fs::remove_file(&path)?;
        }
        let path = self.path.clone();
        if path.exists() {
            self.read_bytes = self.read_file(&path, &mut see)?;
            self.inode = fs::metadata(&path)?.ino();
        }
        Ok(())
    }

    /// Reads the new part of a file. Returns the file's length.
    fn read_file(&self, path: &PathBuf, see: &mut impl FnMut(&[u8])) -> Result<u64> {
        let mut file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        let metadata = file.metadata()?;
        let from = if metadata.ino() == self.inode { self.read_bytes } else { 0 };
        file.seek(SeekFrom::Start(from))?;
        let mut reader = BufReader::with_capacity(1024 * 1024, file);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line)? > 0 {
            see(line.strip_suffix(b"\n").unwrap_or(&line));
            line.clear();
        }
        Ok(metadata.len())
    }
}

//! The file that remembers up to which number a server has everything: a decimal number of twenty digits and a line feed,
//! written in place, so that it is whole whenever the process ends.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::PoisonError;

/// As the largest number has.
const DIGITS: usize = 20;

/// What the file of servers of this name begins with, if each has its own.
const OF_ONE: &str = "acknowledged.";

fn file_name(name: &str) -> String {
    // Different names stay different.
    let safe: String = name.bytes().fold(String::new(), |mut safe, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => safe.push(char::from(byte)),
            _ => safe.push_str(&format!("%{byte:02x}")),
        }
        safe
    });
    if safe.is_empty() { "acknowledged".to_owned() } else { format!("{OF_ONE}{safe}") }
}

/// The files of single servers that are none of `names`, and up to which number those have everything.
pub(super) fn of_others(directory: &Path, names: &[String]) -> io::Result<Vec<(String, u64)>> {
    let known: Vec<String> = names.iter().map(|name| file_name(name)).collect();
    let mut others = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if name.starts_with(OF_ONE) && !known.contains(&name) {
            let sequence = fs::read_to_string(entry.path())?.trim_end().parse().unwrap_or(0);
            others.push((name, sequence));
        }
    }
    Ok(others)
}

#[derive(Debug)]
pub(super) struct Acknowledged {
    file: File,
    /// What stands in the file.
    sequence: Mutex<u64>,
    at_start: u64,
}

impl Acknowledged {
    /// `name` is empty where all servers share one progress.
    pub(super) fn open(directory: &Path, name: &str) -> io::Result<Acknowledged> {
        let path = directory.join(file_name(name));
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        // Damaged or new: the server's welcome says what it has.
        let at_start = text.trim_end().parse().unwrap_or(0);
        if text.len() < DIGITS {
            // So that there is room for it on a disk that is full later. One that is full now has none for records, either.
            let _written = file.write_all_at(format!("{at_start:0DIGITS$}\n").as_bytes(), 0);
        }
        Ok(Acknowledged { file, sequence: Mutex::new(at_start), at_start })
    }

    pub(super) fn at_start(&self) -> u64 {
        self.at_start
    }

    pub(super) fn advance(&self, sequence: u64) -> io::Result<()> {
        let mut known = self.sequence.lock().unwrap_or_else(PoisonError::into_inner);
        if sequence > *known {
            self.file.write_all_at(format!("{sequence:0DIGITS$}\n").as_bytes(), 0)?;
            *known = sequence;
        }
        Ok(())
    }
}

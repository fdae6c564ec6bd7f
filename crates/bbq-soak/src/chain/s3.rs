//! versitygw, an S3 server over a directory, and what is in its bucket.

use std::collections::HashMap;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::book::Book;
use crate::message::Message;

const BUCKET: &str = "chain";
const KEY_ID: &str = "chain";
const SECRET: &str = "sesame";
/// Small, so that each kill finds one that is being written.
const OBJECT_BYTES: &str = "64KiB";
/// More than the messages of an object take.
const UNPACKED_BYTES_MAX: usize = 64 * 1024 * 1024;

#[derive(Clone)]
pub(super) struct S3 {
    pub(super) program: PathBuf,
    /// With directories for buckets and for the attributes of objects.
    pub(super) directory: PathBuf,
    pub(super) address: SocketAddr,
}

impl S3 {
    pub(super) fn make_bucket(&self) -> Result<()> {
        fs::create_dir_all(self.directory.join("attributes"))?;
        fs::create_dir_all(self.bucket())?;
        Ok(fs::write(self.key(), SECRET)?)
    }

    fn bucket(&self) -> PathBuf {
        self.directory.join("buckets").join(BUCKET)
    }

    fn key(&self) -> PathBuf {
        self.directory.join("key")
    }

    pub(super) fn server(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args([
            "--port",
            &self.address.to_string(),
            "--access",
            KEY_ID,
            "--secret",
            SECRET,
            "--quiet",
            "posix",
        ]);
        // Attributes in files, as not every file system has extended ones.
        command.arg("--sidecar").arg(self.directory.join("attributes")).arg(self.directory.join("buckets"));
        command
    }

    pub(super) fn is_ready(&self) -> bool {
        TcpStream::connect(self.address).is_ok()
    }

    pub(super) fn sink(&self) -> String {
        let (endpoint, key) = (self.address, self.key());
        let key = format!("access_key_id={KEY_ID}&secret_access_key_file={}", key.display());
        format!(
            "s3://{BUCKET}/logs?endpoint=http://{endpoint}&{key}&object_bytes={OBJECT_BYTES}&object_seconds=1"
        )
    }

    /// Shows the book every message, lane by lane, and checks that those of a sender are in order in each lane: who wants them in
    /// order over all lanes sorts by stream and sequence.
    pub(super) fn read(&self, book: &Book) -> Result<()> {
        let mut objects = Vec::new();
        find(&self.bucket(), &mut objects)?;
        // The names of a lane's objects are in its order.
        objects.sort();
        let mut unpacked = Vec::with_capacity(UNPACKED_BYTES_MAX);
        let mut last = HashMap::new();
        for object in objects {
            unpacked.clear();
            let wrong = || format!("{} is no object of bbq", object.display());
            zstd_safe::decompress(&mut unpacked, &fs::read(&object)?)
                .map_err(|code| anyhow::anyhow!(zstd_safe::get_error_name(code)))
                .with_context(wrong)?;
            let lane = object.parent().map(Path::to_owned);
            for line in unpacked.split_inclusive(|byte| *byte == b'\n') {
                let record: Value = serde_json::from_slice(line).with_context(wrong)?;
                let text = record["message"].as_str().with_context(wrong)?.as_bytes();
                book.see(text);
                if let Some(Message { run, number }) = Message::read(text) {
                    let before = last.insert((lane.clone(), run), number);
                    let is_behind = before.is_none_or(|before| before < number);
                    ensure!(
                        is_behind,
                        "{}: message {number} of sender {run} stands behind {before:?}",
                        object.display()
                    );
                }
            }
        }
        Ok(())
    }
}

/// Adds the objects below a directory.
fn find(directory: &Path, objects: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            find(&path, objects)?;
        } else if path.extension().is_some_and(|end| end == "zst") {
            objects.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::book::Promise;

    /// Reads a bucket whose two lanes have an object each, with these messages of one sender.
    fn read(lanes: [&[u64]; 2]) -> Result<crate::book::Counts> {
        let directory = tempfile::tempdir()?;
        let address = ([127, 0, 0, 1], 1).into();
        let s3 = S3 { program: PathBuf::new(), directory: directory.path().to_owned(), address };
        s3.make_bucket()?;
        for (lane, numbers) in lanes.iter().enumerate() {
            let mut lines = Vec::new();
            for &number in *numbers {
                let mut text = Vec::new();
                Message { run: 0, number }.write(&mut text);
                let record = serde_json::json!({ "message": String::from_utf8(text)? });
                lines.extend(format!("{record}\n").into_bytes());
            }
            let mut packed = Vec::with_capacity(zstd_safe::compress_bound(lines.len()));
            zstd_safe::compress(&mut packed, &lines, 1).expect("it has room");
            let object = s3.bucket().join(format!("logs/lane-{lane}/1.ndjson.zst"));
            fs::create_dir_all(object.parent().context("a directory")?)?;
            fs::write(object, packed)?;
        }
        let book = Book::default();
        let run = book.begin("test".to_owned(), Promise { ordered: false, no_holes: true, durable: true });
        book.send(run, 4);
        book.acknowledge(run, 4, book.epoch());
        s3.read(&book)?;
        book.judge();
        Ok(book.counts())
    }

    #[test]
    fn a_stream_may_change_its_lane_and_what_is_lost_doubled_or_late_in_a_lane_is_seen() {
        assert!(read([&[0, 2], &[1, 3]]).unwrap().is_clean());
        assert_eq!(read([&[0, 2], &[3]]).unwrap().lost, 1);
        assert_eq!(read([&[0, 1, 2], &[1, 3]]).unwrap().doubled, 1);
        assert!(read([&[0, 2, 1], &[3]]).is_err());
    }
}

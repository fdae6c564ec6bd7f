//! moto, a server that imitates S3, on a free port. It keeps objects in memory.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs::File;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::support::{PATIENCE, free_ports, run};

/// What the tests' servers write to.
pub(crate) const BUCKET: &str = "logs";
pub(crate) const SECRET: &str = "sesame";
/// Makes the bucket, or copies its objects to a directory.
const CLIENT: &str = "
import boto3, os, sys
endpoint, bucket, directory = sys.argv[1:]
s3 = boto3.client('s3', endpoint_url=endpoint, region_name='us-east-1', aws_access_key_id='me', aws_secret_access_key='sesame')
if not directory:
    s3.create_bucket(Bucket=bucket)
else:
    for page in s3.get_paginator('list_objects_v2').paginate(Bucket=bucket):
        for found in page.get('Contents', []):
            path = os.path.join(directory, found['Key'])
            os.makedirs(os.path.dirname(path), exist_ok=True)
            s3.download_file(bucket, found['Key'], path)
";

/// Where a server is, running or not.
pub(crate) struct S3 {
    pub(crate) port: u16,
    directory: TempDir,
}

/// A running server. Killed when dropped.
pub(crate) struct S3Server {
    child: Child,
}

/// The environment of `xtask/src/moto.rs`.
fn program(name: &str) -> PathBuf {
    let scratch = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let program = scratch.parent().expect("target/tmp is in target").join("moto/bin").join(name);
    assert!(program.exists(), "there is no {}; `cargo xtask test` gets it", program.display());
    program
}

impl S3 {
    pub(crate) fn new() -> S3 {
        S3 { port: free_ports(1)[0], directory: tempfile::tempdir().expect("a directory") }
    }

    fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Starts the server with no bucket, and waits until it listens.
    pub(crate) fn start(&self) -> S3Server {
        let log = File::create(self.directory.path().join("log")).expect("a log");
        let mut command = Command::new(program("moto_server"));
        command.args(["--host", "127.0.0.1", "--port", &self.port.to_string()]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
        let server = S3Server { child: child.expect("it starts") };
        let begin = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(begin.elapsed() < PATIENCE, "moto is not ready");
            std::thread::yield_now();
        }
        server
    }

    fn client(&self, directory: &str) {
        let mut command = Command::new(program("python"));
        run(command.args(["-c", CLIENT, &self.endpoint(), BUCKET, directory]), b"");
    }

    pub(crate) fn make_bucket(&self) {
        self.client("");
    }

    /// How many objects of messages there are, at most 1,000.
    pub(crate) fn count(&self) -> usize {
        let url = format!("{}/{BUCKET}?list-type=2", self.endpoint());
        let listed = Command::new("curl").args(["--silent", "--fail", &url]).output().expect("curl is there");
        String::from_utf8_lossy(&listed.stdout).matches(".zst</Key>").count()
    }

    /// Copies all objects to a directory.
    pub(crate) fn copy_to(&self, directory: &Path) {
        self.client(directory.to_str().expect("UTF-8"));
    }
}

impl S3Server {
    /// SIGSTOP.
    pub(crate) fn freeze(&self) {
        kill_process(Pid::from_child(&self.child), Signal::STOP).expect("it runs");
    }

    /// SIGCONT.
    pub(crate) fn thaw(&self) {
        kill_process(Pid::from_child(&self.child), Signal::CONT).expect("it runs");
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

//! versitygw, an S3 server over a directory, on a free port.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs::{self, File};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::authority::Authority;
use crate::support::{PATIENCE, free_ports, pause};

/// What the tests' servers write to.
pub(crate) const BUCKET: &str = "logs";
pub(crate) const KEY_ID: &str = "me";
pub(crate) const SECRET: &str = "sesame";

/// Where a server is, running or not.
pub(crate) struct S3 {
    pub(crate) port: u16,
    /// It has directories of buckets and of attributes, and, if the server speaks TLS, its certificate.
    directory: TempDir,
    is_tls: bool,
}

/// A running server. Killed when dropped.
pub(crate) struct S3Server {
    child: Child,
}

/// The version of `xtask/src/go_server.rs`, which `cargo xtask test` builds.
pub(crate) fn program() -> PathBuf {
    let scratch = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let program = scratch.parent().expect("target/tmp is in target").join("versitygw/versitygw");
    assert!(program.exists(), "there is no {}; `cargo xtask test` builds it", program.display());
    program
}

impl S3 {
    pub(crate) fn new() -> S3 {
        let directory = tempfile::tempdir().expect("a directory");
        for name in ["buckets", "attributes"] {
            fs::create_dir(directory.path().join(name)).expect("a directory");
        }
        S3 { port: free_ports(1)[0], directory, is_tls: false }
    }

    /// One that speaks TLS, as `localhost`.
    pub(crate) fn with_tls(authority: &Authority) -> S3 {
        let s3 = S3::new();
        authority.sign("localhost").write(s3.directory.path(), "server");
        S3 { is_tls: true, ..s3 }
    }

    /// Starts the server, and waits until it listens.
    pub(crate) fn start(&self) -> S3Server {
        let at = |name: &str| self.directory.path().join(name);
        let mut command = Command::new(program());
        command.args(["--port", &format!("127.0.0.1:{}", self.port)]);
        command.args(["--access", KEY_ID, "--secret", SECRET, "--quiet"]);
        if self.is_tls {
            command.arg("--cert").arg(at("server-cert.pem")).arg("--key").arg(at("server-key.pem"));
        }
        // Attributes in files, as not every file system has extended ones.
        command.args(["posix", "--sidecar"]).arg(at("attributes")).arg(at("buckets"));
        let log = File::create(at("log")).expect("a log");
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
        let server = S3Server { child: child.expect("it starts") };
        let begin = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(begin.elapsed() < PATIENCE, "versitygw is not ready");
            pause();
        }
        server
    }

    /// The bucket, in which each object is a file.
    pub(crate) fn bucket(&self) -> PathBuf {
        self.directory.path().join("buckets").join(BUCKET)
    }

    pub(crate) fn make_bucket(&self) {
        fs::create_dir(self.bucket()).expect("a directory");
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

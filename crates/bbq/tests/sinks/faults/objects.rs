//! Objects in a directory, and in a bucket of a real S3 server.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::destination::{Copies, Destination, Fault, Promise, Refused, reload};
use super::proxy::FaultProxy;
use crate::objects::messages;
use crate::s3_server::{BUCKET, KEY_ID, S3, S3Server, SECRET};
use crate::support::fault::Fault as OfSystem;
use crate::support::{Server, Setup, free_ports};

/// Of all. Messages of one second are an object, and each is larger than an object.
const OPTIONS: &str = "object_seconds=1&object_bytes=1KiB";

/// All messages of a narrow way are one object: they come within less than its time.
const OPTIONS_NARROW: &str = "object_seconds=4&object_bytes=8MiB";

/// At which an object takes some 40 seconds: longer than any deadline that does not follow the progress of its upload would be.
pub(super) const NARROW_BYTES_PER_SECOND: u32 = 32 * 1024;

pub(super) fn options(fault: Fault) -> &'static str {
    if fault == Fault::Narrow { OPTIONS_NARROW } else { OPTIONS }
}

pub(super) fn received(directory: &Path) -> Vec<String> {
    let all = messages(directory);
    vec![all.into_iter().map(|message| message + "\n").collect()]
}

struct Bucket {
    s3: S3,
    options: &'static str,
    _server: S3Server,
    /// Whether the sink has the right key.
    knows_key: Cell<bool>,
    proxy: FaultProxy,
}

pub(super) fn s3(fault: Fault, test: &mut dyn FnMut(&mut dyn Destination)) {
    let s3 = S3::new();
    s3.make_bucket();
    let server = s3.start();
    let proxy = FaultProxy::start(free_ports(1)[0], s3.port);
    let (options, knows_key) = (options(fault), Cell::new(fault != Fault::WrongCredentials));
    test(&mut Bucket { s3, options, _server: server, knows_key, proxy });
}

impl Destination for Bucket {
    fn spec(&self) -> String {
        let key = format!("access_key_id={KEY_ID}&secret_access_key_file={{dir}}/key");
        let (address, options) = (self.proxy.address(), self.options);
        format!("s3://{BUCKET}/host?endpoint=http://{address}&{key}&{options}")
    }

    fn prepare(&self, setup: &Setup) {
        let key = if self.knows_key.get() { SECRET } else { "wrong" };
        fs::write(setup.path().join("key"), key).expect("a file");
    }

    fn proxy(&self) -> Option<&FaultProxy> {
        Some(&self.proxy)
    }

    fn promise(&self) -> Promise {
        Promise::Once
    }

    fn narrow_bytes_per_second(&self) -> u32 {
        NARROW_BYTES_PER_SECOND
    }

    fn received(&mut self) -> Vec<String> {
        received(&self.s3.bucket())
    }

    fn begin(&mut self, fault: Fault, _: Option<&Server<'_>>) {
        match fault {
            Fault::RefusingAll => fs::rename(self.s3.bucket(), self.moved()).expect("it is there"),
            // It has begun with the server.
            Fault::WrongCredentials => {}
            _ => panic!("{fault:?}"),
        }
    }

    fn end(&mut self, fault: Fault, server: &Server<'_>) {
        match fault {
            Fault::RefusingAll => fs::rename(self.moved(), self.s3.bucket()).expect("it is there"),
            Fault::WrongCredentials => {
                self.knows_key.set(true);
                self.prepare(server.setup);
                reload(server);
            }
            _ => panic!("{fault:?}"),
        }
    }

    fn begins(&self, fault: Fault) -> (bool, bool) {
        match fault {
            // The key is read when the sink starts.
            Fault::WrongCredentials => (true, false),
            Fault::Hanging => (false, true),
            _ => (true, true),
        }
    }

    fn says(&self, fault: Fault) -> &'static str {
        match fault {
            Fault::RefusingAll => "check that the bucket exists",
            Fault::WrongCredentials => "check access_key_id",
            Fault::Away => "onnect",
            Fault::Copied => "a copy of this data directory",
            _ => "",
        }
    }

    fn refused(&self, _: Fault) -> Refused {
        Refused::None
    }

    fn copies(&self) -> Copies {
        Copies::FirstAlone
    }
}

impl Bucket {
    /// Where the bucket is while there is none: beside the directory of the buckets.
    fn moved(&self) -> PathBuf {
        let bucket = self.s3.bucket();
        bucket.ancestors().nth(2).expect("it has two directories above").join("moved")
    }
}

struct Directory {
    place: TempDir,
    of_system: Option<OfSystem>,
}

pub(super) fn objects(_: Fault, test: &mut dyn FnMut(&mut dyn Destination)) {
    test(&mut Directory { place: tempfile::tempdir().expect("a directory"), of_system: None });
}

impl Destination for Directory {
    fn spec(&self) -> String {
        format!("objects:{}?{OPTIONS}", self.place.path().display())
    }

    fn promise(&self) -> Promise {
        Promise::Once
    }

    fn received(&mut self) -> Vec<String> {
        received(self.place.path())
    }

    fn begin(&mut self, fault: Fault, server: Option<&Server<'_>>) {
        let what = match fault {
            Fault::Slow => "fsync:delay_enter=100000",
            Fault::Hanging => "fsync:delay_enter=600000000",
            Fault::RefusingAll => "fsync:error=ENOSPC",
            _ => panic!("{fault:?}"),
        };
        let server = server.expect("it runs");
        self.of_system = Some(OfSystem::inject(server.pid(), "sink-0", what));
    }

    fn end(&mut self, _: Fault, _: &Server<'_>) {
        self.of_system = None;
    }

    fn begins(&self, _: Fault) -> (bool, bool) {
        (false, true)
    }

    fn says(&self, fault: Fault) -> &'static str {
        match fault {
            Fault::RefusingAll => "No space left",
            Fault::Copied => "a copy of this data directory",
            _ => "",
        }
    }

    /// The thread that would say so waits for the disk.
    fn is_silent(&self, fault: Fault) -> bool {
        fault == Fault::Hanging
    }

    fn refused(&self, _: Fault) -> Refused {
        Refused::None
    }

    fn copies(&self) -> Copies {
        Copies::FirstAlone
    }
}

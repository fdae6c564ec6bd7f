//! Objects at Google and at Azure, by the servers of `cloud_server`.

use std::cell::Cell;
use std::fs;
use std::path::PathBuf;

use super::destination::{Copies, Destination, Fault, Promise, Refused, reload};
use super::objects::{NARROW_BYTES_PER_SECOND, options, received};
use super::proxy::FaultProxy;
use crate::cloud_server::{Cloud, CloudServer, Protocol};
use crate::support::{Server, Setup, free_ports};

struct Bucket {
    protocol: Protocol,
    cloud: Cloud,
    options: &'static str,
    _server: CloudServer,
    /// Whether the sink has the right key.
    knows_key: Cell<bool>,
    proxy: FaultProxy,
}

pub(super) fn gs(fault: Fault, test: &mut dyn FnMut(&mut dyn Destination)) {
    start(Protocol::Google, fault, test);
}

pub(super) fn az(fault: Fault, test: &mut dyn FnMut(&mut dyn Destination)) {
    start(Protocol::Azure, fault, test);
}

fn start(protocol: Protocol, fault: Fault, test: &mut dyn FnMut(&mut dyn Destination)) {
    let cloud = Cloud::new(protocol);
    cloud.make_bucket();
    let server = cloud.start();
    let proxy = FaultProxy::start(free_ports(1)[0], cloud.port);
    let knows_key = Cell::new(fault != Fault::WrongCredentials);
    test(&mut Bucket { protocol, cloud, options: options(fault), _server: server, knows_key, proxy });
}

impl Destination for Bucket {
    fn spec(&self) -> String {
        let address = self.proxy.address();
        let port = address.rsplit(':').next().and_then(|port| port.parse().ok());
        self.cloud.spec(port.unwrap_or_default(), self.options)
    }

    fn prepare(&self, setup: &Setup) {
        self.cloud.write_credentials(setup.path(), self.knows_key.get());
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
        received(&self.cloud.bucket())
    }

    fn begin(&mut self, fault: Fault, _: Option<&Server<'_>>) {
        match fault {
            Fault::RefusingAll => fs::rename(self.cloud.bucket(), self.moved()).expect("it is there"),
            // It has begun with the server.
            Fault::WrongCredentials => {}
            _ => panic!("{fault:?}"),
        }
    }

    fn end(&mut self, fault: Fault, server: &Server<'_>) {
        match fault {
            Fault::RefusingAll => fs::rename(self.moved(), self.cloud.bucket()).expect("it is there"),
            Fault::WrongCredentials => {
                self.knows_key.set(true);
                self.prepare(server.setup);
                // A file of Google's is read again without.
                if self.protocol == Protocol::Azure {
                    reload(server);
                }
            }
            _ => panic!("{fault:?}"),
        }
    }

    fn begins(&self, fault: Fault) -> (bool, bool) {
        match fault {
            // The key is there when the sink starts.
            Fault::WrongCredentials => (true, false),
            Fault::Hanging => (false, true),
            _ => (true, true),
        }
    }

    fn says(&self, fault: Fault) -> &'static str {
        match fault {
            Fault::RefusingAll => "exists; bbq does not create it",
            Fault::WrongCredentials => "and what they may do",
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
    /// Where the bucket is while there is none.
    fn moved(&self) -> PathBuf {
        self.cloud.bucket().with_extension("moved")
    }
}

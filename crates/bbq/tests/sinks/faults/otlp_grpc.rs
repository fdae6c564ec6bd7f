//! A receiver of log records by gRPC, of the tests' own.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;

use super::destination::{Destination, Fault, Promise, Refused};
use super::http::{BODY_BYTES_MAX, Receives, begins, port, refused, timeout_seconds};
use super::proxy::FaultProxy;
use crate::grpc_server::{Reply, serve_with_authorization};
use crate::support::{Server, Setup, free_ports};

/// `INVALID_ARGUMENT` and `UNAUTHENTICATED`.
const INVALID: i32 = 3;
const UNAUTHENTICATED: i32 = 16;

struct Called {
    receives: Arc<Receives>,
    timeout_seconds: u32,
    proxy: FaultProxy,
    _requests: Receiver<Vec<u8>>,
}

pub(super) fn otlp_grpc(fault: Fault, test: &mut dyn FnMut(&mut dyn Destination)) {
    let receives = Arc::new(Receives::default());
    let of_server = Arc::clone(&receives);
    let (address, requests) = serve_with_authorization(move |authorization, message| {
        let text = String::from_utf8_lossy(message);
        let is_too_large = fault == Fault::TooLarge && message.len() > BODY_BYTES_MAX;
        if authorization != Some(of_server.authorization().as_str()) {
            Reply::Refused(UNAUTHENTICATED, "who is that", Vec::new())
        } else if of_server.refuses_all.load(Ordering::Relaxed) || text.contains("bad ") || is_too_large {
            Reply::Refused(INVALID, "bad", Vec::new())
        } else {
            of_server.take(&text);
            Reply::Taken(Vec::new())
        }
    });
    let proxy = FaultProxy::start(free_ports(1)[0], port(&address));
    let timeout_seconds = timeout_seconds(fault);
    test(&mut Called { receives, timeout_seconds, proxy, _requests: requests });
}

impl Destination for Called {
    fn spec(&self) -> String {
        let (address, seconds) = (self.proxy.address(), self.timeout_seconds);
        format!("otlp+grpc://{address}?timeout_seconds={seconds}&authorization_file={{dir}}/authorization")
    }

    fn prepare(&self, setup: &Setup) {
        self.receives.prepare(setup);
    }

    fn proxy(&self) -> Option<&FaultProxy> {
        Some(&self.proxy)
    }

    fn promise(&self) -> Promise {
        Promise::AtLeastOnce
    }

    fn received(&mut self) -> Vec<String> {
        self.receives.taken()
    }

    fn begin(&mut self, fault: Fault, _: Option<&Server<'_>>) {
        self.receives.begin(fault);
    }

    fn end(&mut self, fault: Fault, server: &Server<'_>) {
        self.receives.end(fault, server);
    }

    fn begins(&self, fault: Fault) -> (bool, bool) {
        begins(fault)
    }

    fn says(&self, fault: Fault) -> &'static str {
        match fault {
            Fault::RefusingAll => "INVALID_ARGUMENT",
            Fault::WrongCredentials => "check the option",
            Fault::Away => "onnection refused",
            _ => "",
        }
    }

    fn refused(&self, fault: Fault) -> Refused {
        refused(fault)
    }
}

//! A server that is posted lines or log records, of the tests' own.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};

use super::destination::{Destination, Fault, Promise, Refused, reload};
use super::proxy::FaultProxy;
use crate::http_server::{response, serve_with_heads};
use crate::support::{Server, Setup, free_ports};

/// What it refuses, and what it has taken.
#[derive(Default)]
pub(super) struct Receives {
    pub(super) refuses_all: AtomicBool,
    /// What it wants to be told is `token-` and this number.
    pub(super) token: AtomicU32,
    pub(super) taken: Mutex<String>,
}

/// Larger bodies are too large.
pub(super) const BODY_BYTES_MAX: usize = 2000;

impl Receives {
    pub(super) fn take(&self, body: &str) {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).push_str(body);
    }

    pub(super) fn taken(&self) -> Vec<String> {
        vec![self.taken.lock().unwrap_or_else(PoisonError::into_inner).clone()]
    }

    pub(super) fn authorization(&self) -> String {
        format!("Bearer token-{}", self.token.load(Ordering::Relaxed))
    }

    pub(super) fn begin(&self, fault: Fault) {
        match fault {
            Fault::RefusingAll => self.refuses_all.store(true, Ordering::Relaxed),
            Fault::WrongCredentials => drop(self.token.fetch_add(1, Ordering::Relaxed)),
            _ => panic!("{fault:?}"),
        }
    }

    /// As an operator does: writes the token that the server wants, and reloads.
    pub(super) fn end(&self, fault: Fault, server: &Server<'_>) {
        self.refuses_all.store(false, Ordering::Relaxed);
        if fault == Fault::WrongCredentials {
            self.prepare(server.setup);
            reload(server);
        }
    }

    pub(super) fn prepare(&self, setup: &Setup) {
        fs::write(setup.path().join("authorization"), self.authorization()).expect("a file");
    }

    fn status(&self, fault: Fault, head: &str, body: &str) -> &'static str {
        let is_too_large = fault == Fault::TooLarge && body.len() > BODY_BYTES_MAX;
        if !head.contains(&self.authorization().to_ascii_lowercase()) {
            "401 Unauthorized"
        } else if self.refuses_all.load(Ordering::Relaxed) || body.contains("bad ") {
            "400 Bad Request"
        } else if is_too_large {
            "413 Content Too Large"
        } else {
            self.take(body);
            "200 OK"
        }
    }
}

/// Of HTTP.
struct Posted {
    receives: Arc<Receives>,
    /// Whether a request without messages is one that every receiver takes.
    knows_empty: bool,
    /// With `{}` for the address.
    spec: String,
    proxy: FaultProxy,
    _bodies: Receiver<String>,
}

/// Of requests. Nothing is as quick on a narrow way.
pub(super) fn timeout_seconds(fault: Fault) -> u32 {
    if fault == Fault::Narrow { 30 } else { 1 }
}

pub(super) fn http(fault: Fault, test: &mut dyn FnMut(&mut dyn Destination)) {
    let spec = "http://{}/?format=raw&timeout_seconds={seconds}&authorization_file={dir}/authorization";
    posted(fault, spec, false, test);
}

pub(super) fn otlp_http(fault: Fault, test: &mut dyn FnMut(&mut dyn Destination)) {
    let spec = "otlp+http://{}?timeout_seconds={seconds}&authorization_file={dir}/authorization";
    posted(fault, spec, true, test);
}

fn posted(fault: Fault, spec: &str, knows_empty: bool, test: &mut dyn FnMut(&mut dyn Destination)) {
    let receives = Arc::new(Receives::default());
    let of_server = Arc::clone(&receives);
    let (address, bodies) =
        serve_with_heads(move |head, body| Some(response(of_server.status(fault, head, body))));
    let proxy = FaultProxy::start(free_ports(1)[0], port(&address));
    let spec = spec.replace("{seconds}", &timeout_seconds(fault).to_string());
    test(&mut Posted { receives, knows_empty, spec, proxy, _bodies: bodies });
}

/// Of `HOST:PORT`.
pub(super) fn port(address: &str) -> u16 {
    address.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).expect("a port")
}

/// From the start as well as later; but what a server refuses that has taken nothing yet costs messages.
pub(super) fn begins(fault: Fault) -> (bool, bool) {
    (fault != Fault::RefusingAll, true)
}

/// Before the server is asked with a request without messages, and with it; each part may be in a request of its own.
pub(super) fn refused(fault: Fault) -> Refused {
    match fault {
        Fault::RefusingAll => Refused::Letters(17),
        Fault::RefusingOne | Fault::TooLarge => Refused::Letters(u32::MAX),
        _ => Refused::None,
    }
}

impl Destination for Posted {
    fn spec(&self) -> String {
        self.spec.replace("{}", &self.proxy.address())
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
            Fault::RefusingAll => "400",
            Fault::WrongCredentials => "check the option",
            Fault::Away => "onnection refused",
            _ => "",
        }
    }

    /// The sink asks at the first refusal, and asks a server no more that does not take the request.
    fn is_asked_first(&self, fault: Fault) -> bool {
        fault == Fault::RefusingAll && !self.knows_empty
    }

    fn refused(&self, fault: Fault) -> Refused {
        match refused(fault) {
            Refused::Letters(most) if self.is_asked_first(fault) => Refused::Letters(most + 1),
            other => other,
        }
    }
}

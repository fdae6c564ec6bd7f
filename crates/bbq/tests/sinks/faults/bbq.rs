//! Another bbq server.

use std::fs;

use super::destination::{Destination, Fault, Promise};
use super::proxy::FaultProxy;
use crate::support::{Server, Setup, free_ports};

struct Central<'a> {
    server: Option<Server<'a>>,
    setup: &'a Setup,
    proxy: FaultProxy,
}

/// What the sink says, and what the server knows before an operator mends it.
const TOKEN: &str = "0123456789abcdef";
const OTHER_TOKEN: &str = "fedcba9876543210";

/// A file of tokens: its owner passes on what others have sent.
fn tokens(token: &str) -> String {
    format!("edge {token} relay\n")
}

pub(super) fn bbq(fault: Fault, test: &mut dyn FnMut(&mut dyn Destination)) {
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}?message_bytes_max=2000&tokens={dir}/tokens"])
        .with(&["--workers", "1"]);
    let token = if fault == Fault::WrongCredentials { OTHER_TOKEN } else { TOKEN };
    fs::write(setup.path().join("tokens"), tokens(token)).expect("a file");
    let server = Some(setup.start());
    let proxy = FaultProxy::start(free_ports(1)[0], setup.ports[0]);
    test(&mut Central { server, setup: &setup, proxy });
}

impl Destination for Central<'_> {
    fn spec(&self) -> String {
        format!("bbq://{}?token_file={{dir}}/token", self.proxy.address())
    }

    fn prepare(&self, setup: &Setup) {
        fs::write(setup.path().join("token"), TOKEN).expect("a file");
    }

    fn proxy(&self) -> Option<&FaultProxy> {
        Some(&self.proxy)
    }

    fn promise(&self) -> Promise {
        Promise::Once
    }

    fn received(&mut self) -> Vec<String> {
        let server = self.server.take().expect("it is stopped once");
        assert_eq!(server.stop(), Some(0), "{}", self.setup.log());
        vec![String::from_utf8(self.setup.written()).expect("text")]
    }

    fn begin(&mut self, fault: Fault, _: Option<&Server<'_>>) {
        assert_eq!(fault, Fault::WrongCredentials, "it has begun with the server");
    }

    /// The file is read again by itself.
    fn end(&mut self, _: Fault, _: &Server<'_>) {
        fs::write(self.setup.path().join("tokens"), tokens(TOKEN)).expect("a file");
    }

    fn begins(&self, fault: Fault) -> (bool, bool) {
        match fault {
            // An open link keeps what it has begun with.
            Fault::WrongCredentials => (true, false),
            Fault::Hanging => (false, true),
            _ => (true, true),
        }
    }

    fn says(&self, fault: Fault) -> &'static str {
        match fault {
            Fault::WrongCredentials => "token",
            Fault::Away => "onnection refused",
            _ => "",
        }
    }
}

//! A real NATS server with JetStream.

use std::cell::Cell;
use std::fs;

use serde_json::json;

use super::destination::{Copies, Destination, Fault, Promise, Refused, reload};
use super::proxy::FaultProxy;
use crate::nats_client::Message;
use crate::nats_server::{Nats, NatsServer, new_server};
use crate::support::{Server, Setup, free_ports};

const STREAM: &str = "LOGS";
const PASSWORD: &str = "sesame";
/// The server recognizes duplicates for so long: less than it is away.
const WINDOW_NANOS: u64 = 100_000_000;

struct JetStream<'a> {
    broker: NatsServer<'a>,
    fault: Fault,
    /// Whether the sink has the right password.
    knows_password: Cell<bool>,
    proxy: FaultProxy,
}

pub(super) fn nats(fault: Fault, test: &mut dyn FnMut(&mut dyn Destination)) {
    let user = "authorization { user: bbq, password: sesame }\n";
    let mut nats = Nats::new(new_server()).config("max_payload: 2000\n");
    if fault == Fault::WrongCredentials {
        nats = nats.config(user);
        nats.credentials = json!({ "user": "bbq", "pass": PASSWORD });
    }
    let broker = nats.start();
    let proxy = FaultProxy::start(free_ports(1)[0], nats.port);
    let destination =
        JetStream { broker, fault, knows_password: Cell::new(fault != Fault::WrongCredentials), proxy };
    destination.configure("CREATE", -1);
    test(&mut { destination });
}

impl JetStream<'_> {
    /// Creates or changes the stream.
    fn configure(&self, how: &str, messages_max: i64) {
        let config = json!({
            "name": STREAM, "subjects": ["logs", "bbq.progress.*"], "allow_atomic": true, "duplicate_window": WINDOW_NANOS,
            "max_msgs": messages_max, "discard": "new",
        });
        self.broker.client().api(&format!("STREAM.{how}.{STREAM}"), &config);
    }
}

impl Destination for JetStream<'_> {
    fn spec(&self) -> String {
        let user = match self.fault {
            Fault::WrongCredentials => "&user=bbq&password_file={dir}/password",
            _ => "",
        };
        format!("nats://{}/logs?stream={STREAM}{user}", self.proxy.address())
    }

    fn prepare(&self, setup: &Setup) {
        let password = if self.knows_password.get() { PASSWORD } else { "wrong" };
        fs::write(setup.path().join("password"), password).expect("a file");
    }

    fn proxy(&self) -> Option<&FaultProxy> {
        Some(&self.proxy)
    }

    fn promise(&self) -> Promise {
        Promise::Once
    }

    fn received(&mut self) -> Vec<String> {
        let messages = self.broker.client().read(STREAM, "logs");
        vec![messages.iter().map(Message::text).collect()]
    }

    fn begin(&mut self, fault: Fault, _: Option<&Server<'_>>) {
        match fault {
            Fault::RefusingAll => self.configure("UPDATE", 1),
            // It has begun with the server.
            Fault::WrongCredentials => {}
            _ => panic!("{fault:?}"),
        }
    }

    fn end(&mut self, fault: Fault, server: &Server<'_>) {
        match fault {
            Fault::RefusingAll => self.configure("UPDATE", -1),
            Fault::WrongCredentials => {
                self.knows_password.set(true);
                self.prepare(server.setup);
                reload(server);
            }
            _ => panic!("{fault:?}"),
        }
    }

    fn begins(&self, fault: Fault) -> (bool, bool) {
        match fault {
            // An open connection keeps what it has begun with.
            Fault::WrongCredentials => (true, false),
            Fault::Hanging | Fault::RefusingAll => (false, true),
            _ => (true, true),
        }
    }

    fn says(&self, fault: Fault) -> &'static str {
        match fault {
            Fault::RefusingAll => "maximum messages exceeded",
            Fault::WrongCredentials => "check user and password_file",
            Fault::Away => "onnection refused",
            Fault::Copied => "this data directory is a copy",
            _ => "",
        }
    }

    fn refused(&self, fault: Fault) -> Refused {
        if fault == Fault::TooLarge { Refused::Letters(u32::MAX) } else { Refused::None }
    }

    fn copies(&self) -> Copies {
        Copies::FirstAlone
    }
}

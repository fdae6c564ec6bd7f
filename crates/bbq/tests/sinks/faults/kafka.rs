//! A real Kafka broker, which all tests share: each has a topic of its own.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;

use super::destination::{Copies, Destination, Fault, Promise, Refused, reload};
use super::proxy::FaultProxy;
use crate::kafka_broker::{Kafka, PASSWORD, shared};
use crate::support::{Server, Setup};

struct Topic {
    kafka: Kafka,
    name: String,
    fault: Fault,
    /// Whether the sink has the right password.
    knows_password: Cell<bool>,
    proxy: Option<FaultProxy>,
}

/// Those of the network, each with a listener of the broker.
const PROXIED: [Fault; 5] = [Fault::Slow, Fault::Narrow, Fault::Hanging, Fault::Resetting, Fault::Away];

pub(super) fn kafka(fault: Fault, test: &mut dyn FnMut(&mut dyn Destination)) {
    let kafka = shared();
    let name = format!("faults-{fault:?}");
    match fault {
        // It refuses what has no key.
        Fault::RefusingAll | Fault::RefusingOne => kafka.create(&name, &["cleanup.policy=compact"]),
        Fault::TooLarge => kafka.create(&name, &["max.message.bytes=2000"]),
        _ => {}
    }
    let place = PROXIED.iter().position(|proxied| *proxied == fault);
    let proxy = place.map(|place| {
        let [listener, advertised] = kafka.proxied(place);
        FaultProxy::start(advertised, listener)
    });
    test(&mut Topic {
        kafka,
        name,
        fault,
        knows_password: Cell::new(fault != Fault::WrongCredentials),
        proxy,
    });
}

impl Destination for Topic {
    fn spec(&self) -> String {
        let address = self.proxy.as_ref().map_or(self.kafka.address(), FaultProxy::address);
        let name = &self.name;
        match self.fault {
            Fault::WrongCredentials => {
                let (address, ca) = (self.kafka.secure_address(), self.kafka.file("ca.pem"));
                let user = "user=bbq&password_file={dir}/password";
                format!("kafka://{address}/{name}?tls_ca={}&{user}", ca.display())
            }
            Fault::RefusingAll => format!("kafka://{address}/{name}?key=none"),
            Fault::RefusingOne => format!("kafka://{address}/{name}?key=peer"),
            // Shorter than the broker is away.
            Fault::Away => format!("kafka://{address}/{name}?transaction_timeout_seconds=1"),
            _ => format!("kafka://{address}/{name}"),
        }
    }

    fn prepare(&self, setup: &Setup) {
        let password = if self.knows_password.get() { PASSWORD } else { "wrong" };
        fs::write(setup.path().join("password"), password).expect("a file");
    }

    fn proxy(&self) -> Option<&FaultProxy> {
        self.proxy.as_ref()
    }

    fn promise(&self) -> Promise {
        Promise::Once
    }

    /// One text of each partition.
    fn received(&mut self) -> Vec<String> {
        let mut texts: BTreeMap<u32, String> = BTreeMap::new();
        for record in self.kafka.read(&self.name) {
            texts.entry(record.partition).or_default().push_str(&record.value);
        }
        texts.into_values().collect()
    }

    fn begin(&mut self, fault: Fault, _: Option<&Server<'_>>) {
        match fault {
            // It has begun with the topic, or the server.
            Fault::RefusingAll | Fault::WrongCredentials => {}
            _ => panic!("{fault:?}"),
        }
    }

    fn end(&mut self, fault: Fault, server: &Server<'_>) {
        match fault {
            Fault::RefusingAll => self.kafka.configure(&self.name, "cleanup.policy=delete"),
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
            Fault::WrongCredentials | Fault::RefusingAll => (true, false),
            Fault::Hanging => (false, true),
            _ => (true, true),
        }
    }

    fn says(&self, fault: Fault) -> &'static str {
        match fault {
            Fault::RefusingAll => "also refuse a message of bbq's own",
            Fault::WrongCredentials => "check sasl, user and password_file",
            Fault::Away => "onnection refused",
            Fault::Copied => "this data directory is a copy",
            _ => "",
        }
    }

    fn refused(&self, fault: Fault) -> Refused {
        match fault {
            Fault::RefusingOne | Fault::TooLarge => Refused::Letters(u32::MAX),
            _ => Refused::None,
        }
    }

    fn copies(&self) -> Copies {
        Copies::FirstAlone
    }
}

//! The SPECs of sinks that pass messages on to another bbq server.

use std::sync::Arc;
use std::time::Duration;

use bbq_sink::{DEAD_LETTERS_OPTION, Kind, LinkSink, Now, OpenError, SERVERS_MAX, Sink, Target, tls_options};
use bbq_spec::{ConfigError, Query, SpecOption, Values, without_user};
use bbq_storage::Storage;
use bbq_tls::ClientTls;
use bbq_wire::limits::{TOKEN_BYTES_MAX, TOKEN_BYTES_MIN};
use bbq_wire::session::Token;
use rustls::pki_types::ServerName;

use super::address::{Address, HostPort};
use super::links::ForwardLinks;
use super::next_servers::{LinkState, NextServers, TIMEOUT_DEFAULT};

/// The options of every kind.
const OPTIONS: [SpecOption; 3] = [
    SpecOption {
        key: "token",
        values: Values::Secret,
        default: "none",
        meaning: "the token for the next server, if its listener has `tokens`",
    },
    SpecOption {
        key: "timeout_seconds",
        values: Values::Number(1..=3600),
        default: "30",
        meaning: "a batch that is not acknowledged, and of which the next server's system has taken no byte for this long, is sent again over another connection",
    },
    DEAD_LETTERS_OPTION,
];
const TLS_SERVER_NAME: SpecOption = SpecOption {
    key: "tls_server_name",
    values: Values::Text { form: "NAME", pattern: "^[A-Za-z0-9._:-]+$" },
    default: "HOST",
    meaning: "the name in the server's certificate, if it is not the host of the address",
};

/// `bbq://HOST:PORT`
pub static FORWARD: Kind = Kind {
    word: "bbq",
    argument: "//HOST[:PORT][,HOST[:PORT]...]",
    summary: "passes messages on to another bbq server; of several, to one that works",
    options: &[&OPTIONS],
    is_exclusive: false,
    parse: |argument, query| {
        let spec = Spec { word: "bbq", argument, remedy: "write bbq://HOST:PORT" };
        let addresses = spec.addresses(|place| Ok(Address::Tcp(place)))?;
        spec.target(addresses, ClientTls::default(), query)
    },
};

/// `bbq+tls://HOST:PORT`
pub static FORWARD_TLS: Kind = Kind {
    word: "bbq+tls",
    argument: "//HOST[:PORT][,HOST[:PORT]...]",
    summary: "the same, over TLS",
    options: &[&OPTIONS, &tls_options::OPTIONS, &[TLS_SERVER_NAME]],
    is_exclusive: false,
    parse: |argument, query| {
        let spec = Spec { word: "bbq+tls", argument, remedy: "write bbq+tls://HOST:PORT" };
        let name = query.take("tls_server_name", |name| {
            ServerName::try_from(name.to_owned())
                .map_err(|_| format!("{name:?} is neither a DNS name nor an IP address"))
        })?;
        let tls = tls_options::take(&spec.shown(), query)?;
        let addresses = spec.addresses(|place| {
            let name = name.clone().map_or_else(|| place.server_name(), Ok)?;
            Ok(Address::Tls(place, name))
        })?;
        spec.target(addresses, tls, query)
    },
};

/// `bbq+unix:PATH`
pub static FORWARD_UNIX: Kind = Kind {
    word: "bbq+unix",
    argument: "//PATH",
    summary: "the same, over a unix socket",
    options: &[&OPTIONS],
    is_exclusive: false,
    parse: |argument, query| {
        let spec = Spec { word: "bbq+unix", argument, remedy: "write bbq+unix:///PATH" };
        let path = argument.strip_prefix("//").ok_or_else(|| spec.wrong("// is missing"))?;
        let address = Address::of_path(path).map_err(|why| spec.wrong(why))?;
        spec.target(vec![address], ClientTls::default(), query)
    },
};

/// A SPEC without its options.
struct Spec<'a> {
    word: &'static str,
    argument: &'a str,
    /// What to write.
    remedy: &'static str,
}

impl Spec<'_> {
    fn shown(&self) -> String {
        without_user(&format!("{}:{}", self.word, self.argument))
    }

    fn wrong(&self, why: &str) -> ConfigError {
        ConfigError::new(format!("{:?}: {why}; {}", self.shown(), self.remedy))
    }

    /// The addresses, of which `make` makes one.
    fn addresses(
        &self,
        make: impl Fn(HostPort) -> Result<Address, &'static str>,
    ) -> Result<Vec<Address>, ConfigError> {
        let list = self.argument.strip_prefix("//").ok_or_else(|| self.wrong("// is missing"))?;
        let mut addresses = Vec::new();
        for text in list.split(',') {
            let address = HostPort::parse(text).and_then(&make).map_err(|why| self.wrong(why))?;
            if addresses.contains(&address) {
                return Err(self.wrong(&format!("{address} is listed twice")));
            }
            addresses.push(address);
        }
        if addresses.len() > SERVERS_MAX {
            return Err(self.wrong(&format!("there are more than {SERVERS_MAX} servers")));
        }
        Ok(addresses)
    }

    fn target(
        &self,
        addresses: Vec<Address>,
        tls: ClientTls,
        query: &mut Query<'_>,
    ) -> Result<Arc<dyn Target>, ConfigError> {
        let timeout = query.take_number("timeout_seconds")?.map_or(TIMEOUT_DEFAULT, Duration::from_secs);
        let token = query.take_secret("token")?;
        let token = token.map(|secret| {
            let why = || {
                ConfigError::new(format!(
                    "{:?}: the token is not {TOKEN_BYTES_MIN} to {TOKEN_BYTES_MAX} visible ASCII characters; write the token that the next server has",
                    self.shown()
                ))
            };
            Token::new(secret.expose()).ok_or_else(why)
        });
        Ok(Arc::new(NextServers { addresses, tls, token: token.transpose()?, timeout }))
    }
}

impl Target for NextServers {
    fn is_next_server(&self) -> bool {
        true
    }

    fn open(&self, _: &Arc<dyn Storage>, state: Option<&str>, _: Now) -> Result<Box<dyn Sink>, OpenError> {
        let link = match state.and_then(LinkState::decode) {
            Some(link) => link,
            None => LinkState::new().map_err(OpenError::NotYet)?,
        };
        let links = ForwardLinks::new(self.clone(), &link).map_err(OpenError::NotYet)?;
        let sink = LinkSink::new(links).map_err(OpenError::NotYet)?;
        Ok(Box::new(sink))
    }
}

#[cfg(test)]
mod tests {
    use bbq_sink::Kinds;

    use super::{FORWARD, FORWARD_TLS, FORWARD_UNIX};

    static KINDS: Kinds = Kinds { present: &[&FORWARD, &FORWARD_TLS, &FORWARD_UNIX], left_out: &[] };

    #[test]
    fn mistakes_in_the_address_are_named() {
        let long = format!("bbq+unix:///{}", "x".repeat(107));
        let many = format!("bbq://{}", [(); 17].map(|()| "h").join(","));
        let others: Vec<String> = (1..=17).map(|port| format!("h:{port}")).collect();
        let others = format!("bbq://{}", others.join(","));
        for (spec, words) in [
            ("bbq:logs1:7700", "// is missing"),
            ("bbq://", "no host"),
            ("bbq://:7700", "no host"),
            ("bbq://logs1,", "no host"),
            ("bbq://logs1:0", "the port"),
            ("bbq://logs1:", "the port"),
            ("bbq://logs1:70000", "the port"),
            ("bbq://[::1]7700", "the port"),
            ("bbq://[::1:7700", "in the brackets"),
            ("bbq://::1:7700", "in brackets"),
            ("bbq://logs1/path", "follow the port"),
            ("bbq://me@logs1", "no user"),
            ("bbq://a b", "neither a name"),
            ("bbq://logs1,logs2:1,logs1:7700", "bbq://logs1:7700 is listed twice"),
            (&many, "twice"),
            (&others, "more than 16"),
            ("bbq+tls:logs1:7700", "// is missing"),
            ("bbq+tls://-", "cannot be in a certificate"),
            ("bbq+unix:/run/bbq", "// is missing"),
            ("bbq+unix://", "no path"),
            (&long, "107 bytes"),
        ] {
            let error = KINDS.parse(spec).map(|spec| spec.text).unwrap_err().to_string();
            let word = spec.split(':').next().unwrap();
            assert!(error.contains(words) && error.contains(&format!("write {word}:")), "{spec}: {error}");
        }
        let error = KINDS.parse("bbq+tls://a?tls_server_name=a b").unwrap_err().to_string();
        assert!(error.contains("neither a DNS name nor"), "{error}");
        for (spec, shown) in [
            ("bbq://logs1", &["\"logs1\", port: 7700"][..]),
            ("bbq://[::1]:7701", &["\"::1\", port: 7701"]),
            ("bbq://127.0.0.1:1,b", &["\"127.0.0.1\", port: 1", "\"b\", port: 7700"]),
            ("bbq+tls://logs1:7701", &["\"logs1\", port: 7701", "DnsName(\"logs1\")"]),
            ("bbq+tls://[fe80::1%2]:1?tls_server_name=logs", &["fe80::1%2", "DnsName(\"logs\")"]),
            ("bbq+unix:///run/bbq", &["Unix(\"/run/bbq\")"]),
        ] {
            let target = format!("{:?}", KINDS.parse(spec).unwrap());
            shown.iter().for_each(|shown| assert!(target.contains(shown), "{spec}: {target}"));
        }
    }
}

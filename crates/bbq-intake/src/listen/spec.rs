//! A listen SPEC: `PROTOCOL+TRANSPORT://ADDRESS[?key=value&...]`.

use std::time::Duration;

use bbq_listen::{Address, BACKLOG_DEFAULT, DATAGRAM_BYTES_MAX, Distribution, Steering};
use bbq_rules::{Place, Rules, rule_options};
use bbq_spec::{ConfigError, NAME_OPTION, Part, Query, SpecOption, SpecText, Values, hint, with_sources};
use bbq_tls::Tls;
use bbq_wire::framing::{FramingRules, OnIncomplete, OnOversize};
use bbq_wire::limits::{MESSAGE_BYTES_DEFAULT, MESSAGE_BYTES_MAX};

use super::distribution::{DISTRIBUTIONS, parsed};
use super::protocol::{BBQ, FLUENT, PROTOCOLS, Protocol};
use super::silence::{KEEPALIVE, Silence, USER_TIMEOUT};
use super::unix_file::{GROUP, MODE, OWNER, UnixFile};
use crate::access::{SHARED_KEY, SharedKey, TokenFile, USERS};

/// The longest wait for the first bytes of a connection, in milliseconds: the kernel gives a connection up not much later.
const DEFER_MS_MAX: u64 = 60_000;

/// What a datagram has beside its message, at most: the end of a line, or the header of a batch.
const FRAME_BYTES_MAX: usize = 512;

/// What to do when the spool is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFull {
    /// Stop reading: TCP and unix senders wait; the kernel drops datagrams, which is counted.
    #[default]
    Block,
    /// Continue to read, and drop and count new messages.
    DropNewest,
    /// Delete the oldest segment, read or not, and count its unread messages.
    DropOldest,
}

/// The option that limits the connections of an address.
const PER_ADDRESS: &str = "connections_per_address_max";
/// The option that limits the messages of an address.
const RATE_PER_ADDRESS: &str = "messages_per_second_per_address_max";
/// The options of TLS.
const TLS_KEYS: [&str; 3] = ["tls_cert", "tls_key", "tls_client_ca"];
/// One file, or several.
const PATHS: Values = Values::Text { form: "PATH or PATH,PATH,...", pattern: "^[^,]+(,[^,]+)*$" };

/// The options of listeners, beside the name.
pub fn listen_options() -> impl Iterator<Item = &'static SpecOption> {
    LISTEN_OPTIONS.iter().chain(rule_options())
}

/// Those that only listeners have.
static LISTEN_OPTIONS: [SpecOption; 23] = [
    SpecOption {
        key: "distribution",
        values: DISTRIBUTIONS,
        default: "that of the server",
        meaning: "how connections and datagrams are spread over the workers",
    },
    SpecOption {
        key: "steering",
        values: Values::Text {
            form: "hash, cpu, load, weights:A,B,...",
            pattern: "^(hash|cpu|load|weights:[0-9]+(,[0-9]+)*)$",
        },
        default: "hash",
        meaning: "how a worker is chosen for a sender, with reuseport",
    },
    SpecOption {
        key: "spread",
        values: Values::Words(&["flows", "packets"]),
        default: "flows",
        meaning: "with reuseport over udp: `flows` gives all datagrams of a sender to one worker, `packets` each datagram to any worker",
    },
    SpecOption {
        key: "on_full",
        values: Values::Words(&["block", "drop-newest", "drop-oldest"]),
        default: "block",
        meaning: "what happens when the spool is full",
    },
    SpecOption {
        key: "message_bytes_max",
        values: Values::Size(1..=MESSAGE_BYTES_MAX as u64),
        default: "1MiB",
        meaning: "the longest message",
    },
    SpecOption {
        key: "on_oversize",
        values: Values::Words(&["refuse", "cut"]),
        default: "refuse",
        meaning: "what happens to a longer message: `refuse` drops and counts it (`oversize`), `cut` keeps its front and counts it (`cut`)",
    },
    SpecOption {
        key: "on_incomplete",
        values: Values::Words(&["drop", "keep"]),
        default: "drop",
        meaning: "what happens to a message that is incomplete when its connection ends: `drop` drops and counts it (`incomplete`), `keep` keeps it",
    },
    SpecOption {
        key: "backlog",
        values: Values::Size(1..=65_535),
        default: "4096",
        meaning: "how many connections may wait in the kernel, for each socket; at most `net.core.somaxconn`",
    },
    SpecOption {
        key: "defer_ms",
        values: Values::Number(1..=DEFER_MS_MAX),
        default: "at once",
        meaning: "tcp: a worker gets a connection when its first bytes have arrived, or after about this time, in whole seconds",
    },
    SpecOption {
        key: PER_ADDRESS,
        values: Values::Number(1..=1_000_000),
        default: "no limit",
        meaning: "tcp: open connections of one address; further ones are closed immediately. A /64 network of IPv6 counts as one address, as do \
                  all clients behind a NAT or a proxy",
    },
    SpecOption {
        key: RATE_PER_ADDRESS,
        values: Values::Number(1..=10_000_000),
        default: "no limit",
        meaning: "tcp and udp: messages per second from one address, over all its connections. Over the limit, connections wait, HTTP \
                  requests get 429, and datagrams are dropped (`over_rate`)",
    },
    SpecOption {
        key: "receive_buffer_bytes",
        values: Values::Size(4096..=1 << 30),
        default: "4MiB",
        meaning: "the size of the kernel's buffer for datagrams, for each socket; at most `net.core.rmem_max`",
    },
    KEEPALIVE,
    USER_TIMEOUT,
    MODE,
    OWNER,
    GROUP,
    SpecOption {
        key: "tls_cert",
        values: PATHS,
        default: "no TLS",
        meaning: "TLS over tcp: the certificate with its chain (PEM). With several certificates, a client gets the certificate \
                  for the name that it requests, or the first",
    },
    SpecOption {
        key: "tls_key",
        values: PATHS,
        default: "no TLS",
        meaning: "the private key of each certificate (PEM), in the same order",
    },
    SpecOption {
        key: "tls_client_ca",
        values: Values::Text { form: "PATH", pattern: "^[^,]+$" },
        default: "any client",
        meaning: "TLS: accepts only clients whose certificate one of these CAs has issued (PEM)",
    },
    SpecOption {
        key: "tokens",
        values: Values::Text { form: "PATH", pattern: "." },
        default: "any client",
        meaning: "bbq, http and otlp over tcp and unix: accepts only clients with a token from this file. Each line is TOKEN or NAME TOKEN",
    },
    SHARED_KEY,
    USERS,
];

/// A checked listen SPEC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenSpec {
    /// The SPEC as it was configured.
    pub text: String,
    /// The listener's name in the ledger and the spool. Without the option `name`: protocol, transport and address.
    pub source: String,
    /// How messages are separated, and what their senders are told.
    pub protocol: &'static Protocol,
    /// Where to listen.
    pub address: Address,
    /// How connections are spread; `None` is the server's distribution.
    pub distribution: Option<Distribution>,
    /// Which worker a sender gets, for `reuseport`.
    pub steering: Steering,
    /// What to do when the spool is full.
    pub on_full: OnFull,
    /// The rules of the text framings.
    pub rules: FramingRules,
    /// The number of connections that the kernel queues.
    pub backlog: u32,
    /// How long a connection may wait in the kernel for its first bytes.
    pub defer_accept: Option<Duration>,
    /// How many connections one address may have open.
    pub connections_per_address_max: Option<u32>,
    /// How many messages a second one address may send.
    pub messages_per_second_per_address_max: Option<u32>,
    /// When a connection ends whose peer is gone.
    pub silence: Silence,
    /// The receive buffer to request for datagrams.
    pub receive_buffer_bytes: Option<u32>,
    /// The file of a unix socket; `None` for tcp and udp.
    pub unix_file: Option<UnixFile>,
    /// TLS of its connections; `None` if they are not encrypted.
    pub tls: Option<Tls>,
    /// The tokens of its clients; `None` if they need none.
    pub tokens: Option<TokenFile>,
    /// What clients of `fluent` must know; `None` if they need to know nothing.
    pub shared_key: Option<SharedKey>,
    /// Which messages are kept, and what is replaced in them; `None` if all are kept as they come.
    pub filter: Option<Rules>,
}

impl ListenSpec {
    /// Reads a SPEC.
    ///
    /// # Errors
    /// Says which part is wrong and what is allowed.
    pub fn parse(text: &str) -> Result<ListenSpec, ConfigError> {
        ListenSpec::of(&SpecText::of_text(text)?)
    }

    /// Reads a SPEC that is already split.
    ///
    /// # Errors
    /// Says which part is wrong and what is allowed.
    pub fn of(spec: &SpecText) -> Result<ListenSpec, ConfigError> {
        let SpecText { text, head, .. } = spec;
        let mut query = Query::of(spec, [&NAME_OPTION].into_iter().chain(listen_options()))?;
        let shape = || {
            ConfigError::new(format!(
                "{text:?} is not a listener; write PROTOCOL+TRANSPORT://ADDRESS, for example {}",
                example(head)
            ))
        };
        let (scheme, address) = head.split_once("://").ok_or_else(shape)?;
        let (protocol, transport) = scheme.split_once('+').ok_or_else(shape)?;
        let protocol = parse_protocol(text, protocol)?;
        let address = Address::parse(transport, address)
            .map_err(|error| ConfigError::new(format!("{text:?}: {}", with_sources(&error))))?;
        let tls = take_tls(&mut query, text, protocol, &address)?;
        let place = if protocol.has_fields() { Place::ListenerOfRequests } else { Place::Listener };
        let spec = ListenSpec {
            text: text.clone(),
            source: query.take_name(spec)?,
            protocol,
            distribution: query.take("distribution", parsed)?,
            steering: take_steering(&mut query, text)?,
            on_full: query
                .take_word(
                    "on_full",
                    &[
                        ("block", OnFull::Block),
                        ("drop-newest", OnFull::DropNewest),
                        ("drop-oldest", OnFull::DropOldest),
                    ],
                )?
                .unwrap_or_default(),
            rules: rules(&mut query)?,
            backlog: query.take_number("backlog")?.map_or(BACKLOG_DEFAULT, narrow),
            defer_accept: take_defer_accept(&mut query, text, &address)?,
            connections_per_address_max: take_tcp_number(&mut query, text, &address, PER_ADDRESS)?
                .map(narrow),
            messages_per_second_per_address_max: take_inet_number(
                &mut query,
                text,
                &address,
                RATE_PER_ADDRESS,
            )?
            .map(narrow),
            silence: Silence::take(&mut query, text, &address)?,
            receive_buffer_bytes: query.take_number("receive_buffer_bytes")?.map(narrow),
            unix_file: UnixFile::take(&mut query, text, &address)?,
            address,
            tls,
            tokens: query.take("tokens", TokenFile::read)?,
            shared_key: SharedKey::take(&mut query, text)?,
            filter: Rules::take(&mut query, place)?,
        };
        spec.check_keys(&query)?;
        query.finish()?;
        spec.check_contradictions()?;
        Ok(spec)
    }

    /// Whether the listener has datagrams rather than connections.
    #[must_use]
    pub fn is_datagram(&self) -> bool {
        matches!(self.address, Address::Udp(_) | Address::UnixDatagram(_))
    }

    /// Room for a datagram. What is longer has a message in it that is too large.
    pub(crate) fn datagram_bytes_max(&self) -> usize {
        let longest = match self.address {
            Address::UnixDatagram(_) => self.rules.message_bytes_max as usize + FRAME_BYTES_MAX,
            _ => 0,
        };
        longest.max(DATAGRAM_BYTES_MAX)
    }

    /// The SPEC without its options. This text identifies the sockets, whatever the listener's name is.
    pub fn head(&self) -> &str {
        self.text.split_once('?').map_or(&self.text, |(head, _)| head)
    }

    /// Whether the SPEC gives the listener a name.
    pub fn has_name(&self) -> bool {
        self.source != self.head()
    }

    /// Whether both need the same address. Port 0 is a different port for each listener.
    pub fn clashes_with(&self, other: &ListenSpec) -> bool {
        let any_port = match &self.address {
            Address::Tcp(address) | Address::Udp(address) => address.port() == 0,
            _ => false,
        };
        !any_port && self.address == other.address
    }

    /// Refuses options that would have no effect.
    fn check_keys(&self, query: &Query<'_>) -> Result<(), ConfigError> {
        let given = without_effect(self.protocol, self.is_datagram()).find(|(key, _)| query.was_given(key));
        given.map_or(Ok(()), |(key, why)| {
            let error = ConfigError::new(format!("{:?}: {key} has no meaning here: {why}", self.text));
            Err(error.about(Part::Key(key.to_owned())))
        })
    }

    fn check_contradictions(&self) -> Result<(), ConfigError> {
        if self.is_datagram() && !self.protocol.has_datagrams {
            return Err(ConfigError::new(format!(
                "{:?}: {proto} needs connections; write {proto}+tcp:// or {proto}+unix://",
                self.text,
                proto = self.protocol
            )));
        }
        let unsupported = self
            .distribution
            .and_then(|distribution| distribution.unsupported_reason(self.address.transport()));
        if let Some(reason) = unsupported {
            return Err(ConfigError::new(format!("{:?}: distribution: {reason}", self.text)));
        }
        let can_be_steered = self
            .distribution
            .is_none_or(|distribution| matches!(distribution, Distribution::Auto | Distribution::Reuseport));
        if self.steering == Steering::Packets && (!can_be_steered || !matches!(self.address, Address::Udp(_)))
        {
            return Err(ConfigError::new(format!(
                "{:?}: spread=packets chooses a worker's socket for each datagram; only reuseport over udp has such sockets; \
                 leave spread out",
                self.text
            )));
        }
        if self.steering != Steering::Hash && (!can_be_steered || self.address.transport().is_unix()) {
            return Err(ConfigError::new(format!(
                "{:?}: steering={} chooses among sockets of workers; only reuseport over tcp or udp has such sockets; leave \
                 steering or the distribution out",
                self.text, self.steering
            )));
        }
        if self.steering == Steering::Load && self.is_datagram() {
            return Err(ConfigError::new(format!(
                "{:?}: steering=load needs connections, as a sender of datagrams has to stay with its worker; use hash, cpu or \
                 weights, or a listener over tcp",
                self.text
            )));
        }
        if *self.protocol == BBQ && !self.is_datagram() && self.on_full == OnFull::DropNewest {
            return Err(ConfigError::new(format!(
                "{:?}: on_full=drop-newest contradicts bbq, whose batches are acknowledged; use block or drop-oldest, and \
                 let the sender choose what to drop",
                self.text
            )));
        }
        Ok(())
    }
}

/// The options that have no effect with a protocol and a kind of transport, and why.
pub fn without_effect(
    protocol: &Protocol,
    is_datagram: bool,
) -> impl Iterator<Item = (&'static str, &'static str)> {
    let by_transport = [
        ("spread", !is_datagram, "a connection has one worker"),
        ("backlog", is_datagram, "datagrams are not queued as connections"),
        ("defer_ms", is_datagram, "datagrams are not accepted"),
        (PER_ADDRESS, is_datagram, "datagrams have no connections"),
        ("keepalive_seconds", is_datagram, "datagrams have no connections"),
        ("user_timeout_seconds", is_datagram, "datagrams have no connections"),
        ("receive_buffer_bytes", !is_datagram, "connections have buffers of their own"),
        ("on_incomplete", is_datagram, "datagrams are complete"),
        ("tls_cert", is_datagram, "TLS is for tcp"),
        ("tls_key", is_datagram, "TLS is for tcp"),
        ("tls_client_ca", is_datagram, "TLS is for tcp"),
        ("tokens", is_datagram, "the sender of a datagram cannot be told of a refusal"),
    ];
    let by_transport =
        by_transport.into_iter().filter_map(|(key, has_none, why)| has_none.then_some((key, why)));
    let has_handshake = *protocol == FLUENT;
    let of_handshake = [SHARED_KEY.key, USERS.key].into_iter().filter(move |_| !has_handshake);
    let of_handshake = of_handshake.map(|key| (key, "only fluent has a handshake with a shared key"));
    protocol.without_effect.iter().copied().chain(by_transport).chain(of_handshake)
}

/// `spread=packets` is a steering of its own.
fn take_steering(query: &mut Query<'_>, text: &str) -> Result<Steering, ConfigError> {
    let steering: Option<Steering> = query.take("steering", parsed)?;
    let by_packets = query.take_word("spread", &[("flows", false), ("packets", true)])?.unwrap_or(false);
    match steering {
        Some(Steering::Packets) => Err(ConfigError::new(format!(
            "{text:?}: steering chooses by sender; write spread=packets instead"
        ))),
        Some(steering) if by_packets => Err(ConfigError::new(format!(
            "{text:?}: spread=packets contradicts steering={steering}, which chooses by sender; leave one of the two out"
        ))),
        _ if by_packets => Ok(Steering::Packets),
        steering => Ok(steering.unwrap_or_default()),
    }
}

/// The kernel counts whole seconds.
fn take_defer_accept(
    query: &mut Query<'_>,
    text: &str,
    address: &Address,
) -> Result<Option<Duration>, ConfigError> {
    let wanted = take_tcp_number(query, text, address, "defer_ms")?;
    Ok(wanted.map(|wanted| Duration::from_secs(wanted.div_ceil(1000))))
}

/// Takes a number that only tcp listeners may have. Datagrams are refused with a reason of their own.
fn take_tcp_number(
    query: &mut Query<'_>,
    text: &str,
    address: &Address,
    key: &str,
) -> Result<Option<u64>, ConfigError> {
    if address.transport().is_unix() && address.transport().is_stream() {
        refuse_written(query, text, key, "tcp")?;
    }
    query.take_number(key)
}

/// Takes a number that unix sockets, whose peers have no address, may not have.
fn take_inet_number(
    query: &mut Query<'_>,
    text: &str,
    address: &Address,
    key: &str,
) -> Result<Option<u64>, ConfigError> {
    if address.transport().is_unix() {
        refuse_written(query, text, key, "tcp and udp")?;
    }
    query.take_number(key)
}

fn refuse_written(query: &Query<'_>, text: &str, key: &str, only: &str) -> Result<(), ConfigError> {
    if query.is_written(key) {
        return Err(ConfigError::new(format!(
            "{text:?}: {key} has no meaning here: it is for {only}; leave it out"
        )));
    }
    Ok(())
}

/// Takes the options of TLS. Only tcp listeners may have them.
fn take_tls(
    query: &mut Query<'_>,
    text: &str,
    protocol: &Protocol,
    address: &Address,
) -> Result<Option<Tls>, ConfigError> {
    if !matches!(address, Address::Tcp(_))
        && let Some(key) = TLS_KEYS.into_iter().find(|key| query.is_written(key))
    {
        return Err(ConfigError::new(format!(
            "{text:?}: {key} has no meaning here: TLS is for tcp; write {protocol}+tcp://ADDRESS:PORT, or leave it out"
        )));
    }
    Tls::take(query, text, protocol.application)
}

/// A listener that may have been meant by what has no protocol, or no transport.
fn example(head: &str) -> String {
    match head.split_once("://") {
        Some((transport @ ("tcp" | "udp" | "unix"), address)) => {
            format!("lines+{transport}://{address} or syslog+{transport}://{address}")
        }
        Some((word, address)) if PROTOCOLS.iter().any(|protocol| protocol.word == word) => {
            format!("{word}+tcp://{address}")
        }
        _ => "lines+tcp://127.0.0.1:7701".to_owned(),
    }
}

fn parse_protocol(text: &str, word: &str) -> Result<&'static Protocol, ConfigError> {
    if let Some(protocol) = PROTOCOLS.iter().find(|protocol| protocol.word == word) {
        return Ok(protocol);
    }
    let known: Vec<&str> = PROTOCOLS.iter().map(|protocol| protocol.word).collect();
    Err(ConfigError::new(format!(
        "{text:?}: unknown protocol {word:?}{}; known: {}",
        hint(word, &known),
        known.join(", ")
    )))
}

fn rules(query: &mut Query<'_>) -> Result<FramingRules, ConfigError> {
    let message_bytes_max = query.take_number("message_bytes_max")?;
    let oversize =
        query.take_word("on_oversize", &[("refuse", OnOversize::Refuse), ("cut", OnOversize::Cut)])?;
    let incomplete =
        query.take_word("on_incomplete", &[("drop", OnIncomplete::Drop), ("keep", OnIncomplete::Keep)])?;
    Ok(FramingRules {
        message_bytes_max: message_bytes_max.map_or(MESSAGE_BYTES_DEFAULT, narrow),
        on_oversize: oversize.unwrap_or_default(),
        on_incomplete: incomplete.unwrap_or_default(),
    })
}

/// Converts a value whose range was checked.
fn narrow(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_of_the_interface() {
        let spec =
            ListenSpec::parse("lines+tcp://127.0.0.1:7701?distribution=shared&on_full=drop-newest").unwrap();
        assert_eq!(spec.protocol.word, "lines");
        assert_eq!(spec.source, "lines+tcp://127.0.0.1:7701");
        assert_eq!(spec.distribution, Some(Distribution::Shared));
        assert_eq!(spec.on_full, OnFull::DropNewest);
        let spec =
            ListenSpec::parse("syslog+unixgram:///run/bbq/log?message_bytes_max=64KiB&on_oversize=cut")
                .unwrap();
        assert!(spec.is_datagram());
        assert_eq!(spec.rules.message_bytes_max, 65_536);
        assert_eq!(spec.rules.on_oversize, OnOversize::Cut);
    }

    #[test]
    fn every_option_of_the_list_is_taken() {
        let files = ["tokens", SHARED_KEY.key, USERS.key];
        for option in
            listen_options().filter(|option| !TLS_KEYS.contains(&option.key) && !files.contains(&option.key))
        {
            let address = match option.key {
                "receive_buffer_bytes" | "spread" => "udp://127.0.0.1:1",
                "mode" | "owner" | "group" => "unix:///run/log",
                _ => "tcp://127.0.0.1:1",
            };
            let value = match option.key {
                "distribution" => "auto",
                "defer_ms" | PER_ADDRESS | RATE_PER_ADDRESS => "1000",
                "owner" | "group" => "root",
                "where" => "severity <= 4 && bytes > 0",
                "sample" => "0.1",
                "redact" => "s/a/b/",
                "parse" => "json&where=true",
                _ => option.default,
            };
            ListenSpec::parse(&format!("lines+{address}?{}={value}", option.key)).unwrap();
        }
    }

    #[test]
    fn a_udp_listener_is_spread_by_packets() {
        let spec = |options: &str| ListenSpec::parse(&format!("lines+udp://127.0.0.1:1?{options}")).unwrap();
        assert_eq!(spec("spread=packets&distribution=reuseport").steering, Steering::Packets);
        assert_eq!(spec("spread=flows&steering=weights:1,2").steering, Steering::Weights(vec![1, 2]));
    }

    #[test]
    fn what_is_said_of_tokens_names_the_protocols_that_have_them() {
        let why = |protocol: &Protocol| without_effect(protocol, false).find(|(key, _)| *key == "tokens");
        let (with, without): (Vec<&Protocol>, Vec<&Protocol>) =
            PROTOCOLS.iter().partition(|protocol| why(protocol).is_none());
        let words: Vec<&str> = with.iter().map(|protocol| protocol.word).collect();
        let (last, others) = words.split_last().unwrap();
        let named = format!("{} and {last}", others.join(", "));
        let option = listen_options().find(|option| option.key == "tokens").unwrap();
        assert!(option.meaning.starts_with(&format!("{named} over ")), "{named}: {}", option.meaning);
        for protocol in without {
            assert_eq!(why(protocol).unwrap().1, format!("only {named} have a place for a token"));
        }
    }

    #[test]
    fn each_mistake_names_the_part_and_the_remedy() {
        for (spec, says) in [
            ("lines+tcp://127.0.0.1:1?spread=packets", "a connection has one worker"),
            ("lines+udp://127.0.0.1:1?spread=packets&distribution=shared", "only reuseport over udp"),
            ("lines+unixgram:///run/log?spread=packets", "only reuseport over udp"),
            ("lines+udp://127.0.0.1:1?spread=packets&steering=cpu", "contradicts steering=cpu"),
            ("lines+udp://127.0.0.1:1?steering=packets", "write spread=packets"),
            ("7701", "PROTOCOL+TRANSPORT://ADDRESS"),
            ("line+tcp://127.0.0.1:1", "did you mean \"lines\""),
            ("lines+tpc://127.0.0.1:1", "tpc"),
            ("lines+tcp://nowhere", "nowhere"),
            ("lines+tcp://127.0.0.1:1?distibution=shared", "did you mean \"distribution\""),
            ("lines+tcp://127.0.0.1:1?distribution=fast", "fast"),
            ("lines+tcp://127.0.0.1:1?on_full=explode", "block, drop-newest, drop-oldest"),
            ("lines+tcp://127.0.0.1:1?message_bytes_max=1GiB", "allowed: 1 to 8MiB"),
            ("lines+tcp://127.0.0.1:1?backlog", "has no value"),
            ("lines+tcp://127.0.0.1:1?backlog=1&backlog=2", "given twice"),
            ("bbq+tcp://127.0.0.1:1?on_full=drop-newest", "contradicts bbq"),
            ("lines+unix:///run/log?distribution=reuseport", "unix sockets"),
            ("bbq+tcp://127.0.0.1:1?on_oversize=cut", "on_oversize has no meaning here"),
            ("bbq+tcp://127.0.0.1:1?where=true", "where has no meaning here: the batches of bbq clients"),
            ("bbq+udp://127.0.0.1:1?redact=s/a/b/", "write it at a sink"),
            ("lines+tcp://127.0.0.1:1?where=sverity < 4", "where: column 1: \"sverity\" is not a name"),
            ("lines+tcp://127.0.0.1:1?where=fields.pod == 'a'", "only messages of readers have fields"),
            ("lines+tcp://127.0.0.1:1?sample=2", "above 0 and up to 1"),
            ("lines+tcp://127.0.0.1:1?redact=a", "write s/PATTERN/WITH/"),
            ("lines+tcp://127.0.0.1:1?parse=xml", "json, logfmt, syslog or /PATTERN/"),
            ("syslog+udp://127.0.0.1:1?backlog=5", "backlog has no meaning here"),
            ("lines+tcp://127.0.0.1:1?receive_buffer_bytes=1MiB", "receive_buffer_bytes has no meaning here"),
            ("syslog+udp://127.0.0.1:1?defer_ms=5", "defer_ms has no meaning here"),
            ("lines+unix:///run/log?defer_ms=5", "it is for tcp"),
            ("lines+tcp://127.0.0.1:1?defer_ms=60001", "out of range"),
            ("syslog+udp://127.0.0.1:1?tls_cert=/c", "tls_cert has no meaning here"),
            ("lines+unix:///run/log?tls_key=/k", "tls_key has no meaning here"),
            ("lines+tcp://127.0.0.1:1?tokens=/t", "tokens: cannot read /t"),
            ("bbq+udp://127.0.0.1:1?tokens=/t", "tokens: cannot read /t"),
            ("http+tcp://127.0.0.1:1?shared_key_file=/k", "shared_key_file: cannot read /k"),
            ("fluent+tcp://127.0.0.1:1?shared_key_file=/k", "shared_key_file: cannot read /k"),
            ("fluent+tcp://127.0.0.1:1?tokens=/t", "tokens: cannot read /t"),
            ("fluent+tcp://127.0.0.1:1?on_incomplete=keep", "on_incomplete has no meaning here"),
            ("fluent+udp://127.0.0.1:1", "fluent needs connections"),
            (
                "gelf+tcp://127.0.0.1:1?on_oversize=cut",
                "on_oversize has no meaning here: a part of a message",
            ),
            ("gelf+udp://127.0.0.1:1?on_incomplete=keep", "on_incomplete has no meaning here"),
            ("gelf+tcp://127.0.0.1:1?tokens=/t", "tokens: cannot read /t"),
            ("lines+tcp://127.0.0.1:1?tls_cert=/c", "write tls_key=PATH"),
            ("lines+tcp://127.0.0.1:1?tls_key=/k", "write tls_cert=PATH"),
            ("lines+tcp://127.0.0.1:1?tls_client_ca=/a", "write tls_cert=PATH and tls_key=PATH"),
            ("lines+tcp://127.0.0.1:1?tls_cert=/c,/d&tls_key=/k", "tls_cert names 2 files and tls_key 1"),
            ("lines+tcp://127.0.0.1:1?tls_cert=/c,&tls_key=/k", "empty path"),
            (
                "lines+tcp://127.0.0.1:1?tls_cert=/nowhere/c&tls_key=/k",
                "tls_cert: cannot read /nowhere/c: No such",
            ),
        ] {
            let error = ListenSpec::parse(spec).unwrap_err().to_string();
            assert!(error.contains(says), "{spec}: {error}");
        }
    }
}

//! Who is in the world of a crowd, and the tokens that they show.

/// Streams that the server remembers. There are fewer holders: two clients, three requesters, a stranger and a link.
pub(crate) const STREAMS_MAX: usize = 8;
/// Clients of bbq.
pub(crate) const CLIENTS_MAX: u64 = 2;
/// The name of the stranger.
pub(crate) const STRANGER: &str = "stranger";
/// The name of the server that passes on.
pub(crate) const RELAY: &str = "edge";

/// The token of somebody with this name.
pub(crate) fn token(name: &str) -> String {
    format!("the-token-of-{name}")
}

/// The most clients of HTTP.
pub(crate) const REQUESTERS_MAX: usize = 3;

/// The name of a client of HTTP.
pub(crate) fn requester(index: usize) -> String {
    format!("till-{index}")
}

/// The name of a client of bbq.
pub(crate) fn client(index: usize) -> String {
    format!("client-{index}")
}

/// The server's file of tokens. With `is_one`, all of them have the same name: for a planted bug.
pub(crate) fn tokens(is_one: bool) -> String {
    let clients = (0..CLIENTS_MAX as usize).map(client);
    let requesters = (0..REQUESTERS_MAX).map(requester);
    let names = clients.chain(requesters).chain([STRANGER.to_owned()]);
    let line = |name: String| format!("{} {}\n", if is_one { "all" } else { &name }, token(&name));
    let lines: String = names.map(line).collect();
    format!("{lines}{RELAY} {} relay\n", token(RELAY))
}

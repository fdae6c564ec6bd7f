//! Makes a group of sockets that somebody else opened: the program before an upgrade, or systemd.
//!
//! It opens and binds nothing, so no queued connection is lost. Each socket is checked: one of another address would otherwise be
//! served under a wrong name.
//!
//! Invariant: sockets keep the order in which they came, which is their index.
//! Invariant: a refused group closes its copies of the descriptors and changes nothing else.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;

use socket2::{Domain, Socket};

use crate::address::shown_path;
use crate::sockets::activation::unix_name;
use crate::sockets::open::{ONE_WORKER_REASON, Opened, Steps, UNIX_REASON};
use crate::sockets::options::GroupOptions;
use crate::sockets::unix_path::OwnedPath;
use crate::{Address, Distribution, ListenError};

pub(crate) fn adopt(options: &GroupOptions, sockets: Vec<OwnedFd>) -> Result<Opened, ListenError> {
    let configured = &options.address;
    let sockets: Vec<Socket> = sockets.into_iter().map(Socket::from).collect();
    let unfit = |problem: String| ListenError::Unfit { address: configured.clone(), problem };
    let Some(first) = sockets.first() else { return Err(unfit("there is none".to_owned())) };
    for (index, socket) in sockets.iter().enumerate() {
        check(configured, socket).map_err(|problem| unfit(format!("number {index} {problem}")))?;
    }
    // If the system chose the port, all sockets must have the same one.
    let step = Steps { address: configured };
    let address = step.bound_address(first)?;
    for (index, socket) in sockets.iter().enumerate().skip(1) {
        check(&address, socket).map_err(|problem| unfit(format!("number {index} {problem}")))?;
    }
    let (distribution, fallback) = distribution_of(options, &sockets).map_err(unfit)?;
    let step = Steps { address: &address };
    for socket in &sockets {
        socket.set_cloexec(true).map_err(|error| step.failed("fcntl FD_CLOEXEC", error))?;
        step.set_options(socket, options)?;
        // A second listen changes only the backlog (net/ipv4/af_inet.c, net/unix/af_unix.c).
        step.listen(socket, options.backlog)?;
    }
    let path = address.unix_path().map(OwnedPath::adopted).transpose();
    let path = path.map_err(|error| step.failed("lstat", error))?;
    let receive_buffer_bytes = step.granted_receive_buffer(first)?;
    Ok(Opened {
        sockets: sockets.into_iter().map(OwnedFd::from).collect(),
        address,
        distribution,
        fallback,
        receive_buffer_bytes,
        path,
    })
}

/// The distribution that the sockets allow. It may not be the configured one, as none is opened or closed.
fn distribution_of(
    options: &GroupOptions,
    sockets: &[Socket],
) -> Result<(Distribution, Option<String>), String> {
    let (configured, workers) = (options.distribution, options.workers);
    let sharing = || sockets.iter().all(|socket| socket.reuse_port().unwrap_or(false));
    match sockets.len() {
        1 if matches!(configured, Distribution::AcceptMutex | Distribution::Handoff(_)) => {
            Ok((configured, None))
        }
        1 if workers == 1 && configured == Distribution::Reuseport => Ok((Distribution::Reuseport, None)),
        1 => Ok((Distribution::Shared, shared_because(options))),
        count if configured.may_duplicate(count) && sharing() => Ok((configured, None)),
        count if options.address.transport().is_unix() => {
            Err(format!("there are {count}, and {UNIX_REASON}"))
        }
        count if count != workers => {
            Err(format!("there are {count} for {workers} workers; one for all or one for each is needed"))
        }
        _ if !sharing() => Err("there are several, not all with SO_REUSEPORT".to_owned()),
        count if configured == Distribution::Shared => {
            Ok((Distribution::Reuseport, Some(format!("{count} sockets were handed over"))))
        }
        _ => Ok((Distribution::Reuseport, None)),
    }
}

fn shared_because(options: &GroupOptions) -> Option<String> {
    let reason = match options.distribution {
        Distribution::Shared => return None,
        _ if options.address.transport().is_unix() => UNIX_REASON,
        _ if options.workers == 1 => ONE_WORKER_REASON,
        _ => "one socket was handed over",
    };
    Some(reason.to_owned())
}

/// `Err` says what is wrong with a socket.
fn check(address: &Address, socket: &Socket) -> Result<(), String> {
    let failed = |error: io::Error| format!("is not a socket ({error})");
    let (domain, kind) = address.domain_and_type();
    let is_domain = socket.domain().map_err(failed)? == domain || takes_every_ipv4(address, socket);
    if !is_domain || socket.r#type().map_err(failed)? != kind {
        return Err("is of another kind".to_owned());
    }
    let name = socket.local_addr().map_err(failed)?;
    let fits = match address {
        Address::Tcp(to) | Address::Udp(to) => name.as_socket().is_some_and(|bound| same(*to, bound)),
        Address::Unix(path) | Address::UnixDatagram(path) => {
            unix_name(&name).is_some_and(|bound| same_path(path, &bound))
        }
    };
    if !fits {
        let bound = name.as_socket().map(|bound| bound.to_string());
        let bound = bound.or_else(|| unix_name(&name).map(|path| shown_path(&path)));
        return Err(format!("is bound to {}", bound.unwrap_or_else(|| "nothing".to_owned())));
    }
    if address.transport().is_stream() && !socket.is_listener().map_err(failed)? {
        return Err("does not listen".to_owned());
    }
    Ok(())
}

/// Whether every IPv4 address is wanted, and this is an IPv6 socket that takes them, too: systemd opens it for a port without address.
fn takes_every_ipv4(wanted: &Address, socket: &Socket) -> bool {
    let wants_ipv4 = wanted.socket_address().is_some_and(|to| to.is_ipv4() && to.ip().is_unspecified());
    wants_ipv4
        && socket.domain().is_ok_and(|domain| domain == Domain::IPV6)
        && socket.only_v6().is_ok_and(|only_v6| !only_v6)
}

/// Port 0 means that the system was asked to choose. Of the two families, `check` has said whether it may be the other one.
fn same(wanted: SocketAddr, bound: SocketAddr) -> bool {
    let is_every = wanted.ip().is_unspecified() && bound.ip().is_unspecified();
    (wanted.ip() == bound.ip() || is_every) && (wanted.port() == 0 || wanted.port() == bound.port())
}

/// The name of a socket is the path as it was bound, which may have been relative.
fn same_path(wanted: &Path, bound: &Path) -> bool {
    let absolute = |path: &Path| std::path::absolute(path).ok();
    wanted == bound || absolute(wanted).is_some_and(|wanted| absolute(bound) == Some(wanted))
}

//! Socket activation: sockets that systemd opened are served like the server's own.
//!
//! Invariant: a socket that systemd hands over is served, or the start is refused: connections would wait on it for ever.

use std::os::fd::AsFd;

use bbq_listen::{Activated, bound_address};

use crate::error::StartError;
use crate::lifecycle::listeners::OfferedGroup;

/// Puts the sockets of one address together, in their order. systemd removes the files of unix sockets itself.
pub(crate) fn offered(activated: Vec<Activated>) -> Result<Vec<OfferedGroup>, StartError> {
    let mut groups: Vec<OfferedGroup> = Vec::new();
    for Activated { name, descriptor, .. } in activated {
        let Some(address) = bound_address(descriptor.as_fd()) else {
            return Err(StartError::Unclaimed { sockets: format!("{name:?}, whose address is unknown") });
        };
        match groups.iter_mut().find(|group| group.address == address) {
            Some(group) => group.sockets.push(descriptor),
            None => groups.push(OfferedGroup {
                address,
                sockets: vec![descriptor],
                owns_file: false,
                kernel_seen: 0,
                steering_key: None,
            }),
        }
    }
    Ok(groups)
}

/// Refuses the start if sockets are left that no listener took.
pub(crate) fn refuse_rest(offered: &[OfferedGroup]) -> Result<(), StartError> {
    if offered.is_empty() {
        return Ok(());
    }
    let sockets: Vec<String> = offered.iter().map(|group| group.address.to_string()).collect();
    Err(StartError::Unclaimed { sockets: sockets.join(", ") })
}

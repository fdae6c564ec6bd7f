//! Who gets the next connection: which worker serves which socket, and what is passed from one worker to another.

pub(crate) mod baton;
pub(crate) mod bell;
pub(crate) mod door;
pub(crate) mod handoff;
pub(crate) mod inbox;
pub(crate) mod inboxes;
pub(crate) mod open_count;
pub(crate) mod places;

//! Listener groups.

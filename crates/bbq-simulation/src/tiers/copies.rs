//! A disk that is copied, and both of them in use: the data directory of a server, beside which a second server starts with the copy, on
//! another machine and with the same next servers; or the spool of a client, on which a second client starts.
//!
//! Nothing may be lost that any of them acknowledges. What two servers have in common comes out once, as the next server knows it by its
//! numbers. A client or a server before them may go on with the copy in place of the original, or with the original alone. What two spools
//! have in common may come twice, if it was not acknowledged when the spool was copied: see docs/CLIENTS.md.

use super::Tiers;
use super::node::Node;
use crate::disk::SimDisk;
use crate::note;

impl Tiers {
    /// A second server starts with a copy of a server's data directory. With `is_used`, clients and servers before it may go on with it.
    pub(super) fn copy_data(&mut self, original: usize, disk: &SimDisk, is_used: bool) {
        let copy = self.nodes.len();
        note!(self.trace, "server {copy} starts with a copy of the data of server {original}");
        let node = Node::copy(&self.nodes[original], copy, disk, &mut self.random);
        self.nodes.push(node);
        if !is_used {
            return;
        }
        for index in 0..self.clients.len() {
            let servers = self.clients[index].servers();
            if servers.numbers().any(|server| server == original) && self.random.one_in(2) {
                note!(self.trace, "client {index} goes on with server {copy} in place of server {original}");
                self.clients[index].set_servers(servers.with(original, copy));
                self.unsure.insert(index);
            }
        }
        for index in 0..copy {
            if self.nodes[index].redirect(original, copy, &mut self.random) {
                note!(
                    self.trace,
                    "server {index} will pass on to server {copy} in place of server {original}"
                );
            }
        }
    }

    /// A second client starts with a copy of the first one's spool.
    pub(super) fn copy_spool(&mut self, disk: &SimDisk, is_on_machine: bool) {
        let copy = self.clients.len();
        note!(self.trace, "client {copy} starts with a copy of the spool of client 0");
        let client = self.clients[0].copy(copy, disk, is_on_machine, &mut self.random);
        self.clients.push(client);
        self.unsure.extend([0, copy]);
    }
}

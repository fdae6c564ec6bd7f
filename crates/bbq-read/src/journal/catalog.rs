//! What a reader of a journal remembers beside the numbers in the table of streams. One small file, replaced as a whole:
//!
//! ```text
//! bbq journal 1 <crc>                           see bbq_spool::sealed
//! <salt> <boot id> <floor, microseconds> <bound, microseconds> <place at which journalctl begins, or ->
//! <sequence number id> <generation> <fork>
//! ```
//!
//! The salt is random, so that two machines with copies of one journal have different streams.
//! The floor is the time before which nothing is read, as `start` says.
//! An id gets another generation, and so another stream, when a journal was restored from a copy, or has lost its last entries with the
//! power, and has written other entries under the same numbers: those behind `fork`. Boot and bound tell that: no entry that was ever read is
//! of a later boot than `boot`, or newer than `bound`.
//!
//! Invariant: an id is durable here before the first batch of its stream is handed over, so the server keeps the stream.

use std::fmt::Write;
use std::io;
use std::path::Path;
use std::sync::Arc;

use bbq_storage::Storage;
use bbq_wire::StreamId;

use super::cursor::Place;
use crate::catalog_file::{CatalogFile, CatalogKind, Loaded};

static KIND: CatalogKind<Contents> = CatalogKind { name: "journal", suffix: ".journal", parse };

/// What is known of a sequence number id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KnownId {
    pub(crate) seqnum_id: u128,
    pub(crate) generation: u32,
    /// Entries up to this number are of an earlier generation.
    pub(crate) fork: u64,
}

/// The contents of a catalog.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    pub(crate) salt: u128,
    /// The boot in which it was written.
    pub(crate) boot_id: u128,
    pub(crate) floor_us: u64,
    pub(crate) bound_us: u64,
    pub(crate) place: Place,
    pub(crate) ids: Vec<KnownId>,
}

/// The catalog of a reader of a journal on disk.
pub(crate) struct Catalog(CatalogFile);

impl Catalog {
    /// The catalog of the reader with this name. The directory is created if it is missing.
    pub(crate) fn open(
        directory: &Path,
        reader: &str,
        storage: Arc<dyn Storage>,
    ) -> io::Result<(Catalog, Loaded<Contents>)> {
        let (file, loaded) = KIND.open(directory, reader, storage)?;
        Ok((Catalog(file), loaded))
    }

    /// Replaces the catalog; durable on return.
    pub(crate) fn save(&self, contents: &Contents) -> io::Result<()> {
        let Contents { salt, boot_id, floor_us, bound_us, place, ids } = contents;
        let place = if place.is_first_entry() { "-".to_owned() } else { place.to_string() };
        let mut body = format!("{salt:032x} {boot_id:032x} {floor_us} {bound_us} {place}\n");
        for KnownId { seqnum_id, generation, fork } in ids {
            let _infallible = writeln!(body, "{seqnum_id:032x} {generation} {fork}");
        }
        self.0.replace(&body)
    }
}

/// The streams of all catalogs of journals in a directory. A damaged catalog has none.
///
/// # Errors
/// A catalog cannot be read now.
pub(crate) fn catalogued(directory: &Path, storage: &dyn Storage) -> io::Result<Vec<StreamId>> {
    let of_journal = |Contents { salt, ids, .. }: Contents| {
        ids.into_iter().map(move |id| stream_of(salt, id.seqnum_id, id.generation))
    };
    Ok(KIND.all(directory, storage)?.into_iter().flat_map(of_journal).collect())
}

/// The stream of a sequence number id: FNV-1a of 128 bits. Nobody chooses what goes into it.
pub(crate) fn stream_of(salt: u128, seqnum_id: u128, generation: u32) -> StreamId {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let numbers = [salt.to_be_bytes(), seqnum_id.to_be_bytes(), u128::from(generation).to_be_bytes()];
    let hash = numbers
        .as_flattened()
        .iter()
        .fold(OFFSET, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME));
    StreamId(hash.to_be_bytes())
}

fn parse(body: &str) -> Option<Contents> {
    let mut lines = body.lines();
    let mut first = lines.next()?.splitn(5, ' ');
    let mut id = || u128::from_str_radix(first.next()?, 16).ok();
    let (salt, boot_id) = (id()?, id()?);
    let floor_us = first.next()?.parse().ok()?;
    let bound_us = first.next()?.parse().ok()?;
    let place = match first.next()? {
        "-" => Place::default(),
        text => Place::parse(text)?,
    };
    let ids = lines.map(parse_id).collect::<Option<_>>()?;
    Some(Contents { salt, boot_id, floor_us, bound_us, place, ids })
}

fn parse_id(line: &str) -> Option<KnownId> {
    let mut fields = line.split(' ');
    let seqnum_id = u128::from_str_radix(fields.next()?, 16).ok()?;
    let generation = fields.next()?.parse().ok()?;
    Some(KnownId { seqnum_id, generation, fork: fields.next()?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use bbq_storage::DiskStorage;

    use super::*;

    fn contents() -> Contents {
        let id = |seqnum_id| KnownId { seqnum_id, generation: 2, fork: u64::MAX };
        let place = Place::at_time(5);
        Contents { salt: 7, boot_id: 3, floor_us: 9, bound_us: 11, place, ids: vec![id(1), id(u128::MAX)] }
    }

    #[test]
    fn contents_come_back() {
        let directory = tempfile::tempdir().unwrap();
        let storage: Arc<dyn Storage> = Arc::new(DiskStorage);
        let open = || Catalog::open(directory.path(), "journal:", Arc::clone(&storage)).unwrap();
        let (catalog, loaded) = open();
        assert_eq!(loaded, Loaded::First);
        for contents in [contents(), Contents { place: Place::default(), ..contents() }] {
            catalog.save(&contents).unwrap();
            assert_eq!(open().1, Loaded::Known(contents));
        }
        let streams = catalogued(directory.path(), &*storage).unwrap();
        assert_eq!(streams, [stream_of(7, 1, 2), stream_of(7, u128::MAX, 2)]);
    }

    #[test]
    fn a_damaged_catalog_is_set_aside_and_not_believed() {
        let directory = tempfile::tempdir().unwrap();
        let storage: Arc<dyn Storage> = Arc::new(DiskStorage);
        let open = || Catalog::open(directory.path(), "r", Arc::clone(&storage)).unwrap();
        let (catalog, _) = open();
        catalog.save(&contents()).unwrap();
        let mut bytes = std::fs::read(catalog.0.path()).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(catalog.0.path(), bytes).unwrap();
        let Loaded::Damaged(aside) = open().1 else { panic!("it was believed") };
        assert!(aside.exists());
        assert_eq!(open().1, Loaded::First);
    }

    #[test]
    fn streams_differ_by_machine_id_and_generation() {
        let streams = [stream_of(1, 1, 1), stream_of(2, 1, 1), stream_of(1, 2, 1), stream_of(1, 1, 2)];
        assert!((1..4).all(|at| !streams[..at].contains(&streams[at])), "{streams:?}");
    }
}

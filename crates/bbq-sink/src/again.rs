//! The text that the spool can write again: that of the messages behind a cursor. It is read once more when the sink writes it.

use std::convert::Infallible;
use std::io;

use bbq_format::{Format, Formatter};
use bbq_spool::limits::READ_TRIES_MAX;
use bbq_spool::{Entry, GroupCursor, LaneReader, Next, Scratch};

use super::lenses::{Lenses, Seen};

/// Messages that are formatted at once, and their bytes, unless one is larger: JSON may make six bytes of each byte.
const RECORDS_AT_ONCE_MAX: u32 = 16 * 1024;
const RECORDS_BYTES_AT_ONCE_MAX: usize = 1024 * 1024;

/// Passes the text that the spool can write again, in a format, to the function, in pieces of whole messages: of each lane at least so many
/// bytes, if it has them.
pub type Again<'a> = dyn FnMut(Format, u64, &mut dyn FnMut(&[u8])) -> io::Result<()> + 'a;

/// Passes the text of each lane to `emit`, in pieces of whole messages, until a lane has given `bytes_max`: more of a lane cannot be in an
/// output with so many bytes behind its cursor. The first group does not count, as a part of it may be before the cursor.
///
/// # Errors
/// A lane cannot be read now.
pub(crate) fn each_text(
    (readers, mut lenses): (Vec<LaneReader>, Option<Lenses>),
    format: Format,
    bytes_max: u64,
    emit: &mut dyn FnMut(&[u8]),
) -> io::Result<()> {
    let mut formatter = Formatter::new(format);
    let (mut text, mut scratch) = (Vec::new(), Scratch::default());
    for mut reader in readers {
        let (mut bytes, mut errors, mut is_first) = (0, 0, true);
        while bytes <= bytes_max {
            let group = match reader.next_group() {
                Ok(Next::CaughtUp) => break,
                Ok(Next::Lost(_)) => None,
                Ok(Next::Group(group)) => Some(Seen::through(lenses.as_mut(), group).group),
                Err(error) if errors >= READ_TRIES_MAX => return Err(error),
                Err(_) => {
                    errors += 1;
                    continue;
                }
            };
            errors = 0;
            let mut group_bytes = 0;
            let mut append = |entry: &Entry<'_>| {
                for batch in entry.batch.parts(RECORDS_AT_ONCE_MAX, RECORDS_BYTES_AT_ONCE_MAX) {
                    text.clear();
                    formatter.append(&entry.with_batch(batch), &mut text);
                    group_bytes += text.len() as u64;
                    emit(&text);
                }
                Ok::<(), Infallible>(())
            };
            if let Some(group) = group {
                let Ok(()) = group.try_for_each(&mut GroupCursor::default(), &mut scratch, &mut append);
            }
            if !std::mem::replace(&mut is_first, false) {
                bytes += group_bytes;
            }
        }
    }
    Ok(())
}

//! Names of output files that were set aside: the path, the second (UTC), and a number that counts up within the second, so that
//! names sort by age. `messages.log.20261120-101500-0000`

use std::io;
use std::path::{Path, PathBuf};

use bbq_storage::{Storage, parent_of};
use chrono::{DateTime, NaiveDateTime, TimeDelta, Utc};

const STAMP: &str = "%Y%m%d-%H%M%S";
/// The number has four digits. If more files are set aside within a second, they get names of the next second.
const NUMBER_MAX: u32 = 9999;

/// Returns a name that sorts after all others, even if the clock was set back. `last` is the last name, if it is known. No name
/// is used again after its file was deleted (`keep`): the newest file would then sort as the oldest.
pub(super) fn next_name(
    storage: &dyn Storage,
    path: &Path,
    last: Option<&Path>,
    now: DateTime<Utc>,
) -> io::Result<PathBuf> {
    let last = match last {
        Some(last) => Some(last.to_owned()),
        None => list(storage, path)?.pop(),
    };
    let now = now.naive_utc();
    let (time, number) = match last.as_deref().and_then(stamp_of) {
        Some((time, number)) if time.format(STAMP).to_string() >= now.format(STAMP).to_string() => {
            if number < NUMBER_MAX { (time, number + 1) } else { (time + TimeDelta::seconds(1), 0) }
        }
        _ => (now, 0),
    };
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}-{number:04}", time.format(STAMP)));
    Ok(PathBuf::from(name))
}

fn stamp_of(path: &Path) -> Option<(NaiveDateTime, u32)> {
    let name = path.file_name()?.to_string_lossy().into_owned();
    let (time, number) = name.rsplit_once('.')?.1.rsplit_once('-')?;
    Some((NaiveDateTime::parse_from_str(time, STAMP).ok()?, number.parse().ok()?))
}

/// The files that were set aside, oldest first.
pub(super) fn list(storage: &dyn Storage, path: &Path) -> io::Result<Vec<PathBuf>> {
    let Some(name) = path.file_name() else { return Ok(Vec::new()) };
    let prefix = format!("{}.", name.to_string_lossy());
    let mut names = storage.list(parent_of(path))?;
    names.retain(|name| name.strip_prefix(&prefix).is_some_and(is_stamp));
    let mut aside: Vec<PathBuf> = names.into_iter().map(|name| path.with_file_name(name)).collect();
    aside.sort();
    Ok(aside)
}

/// Deletes all files that were set aside, except the newest `keep`.
pub(super) fn delete_old(storage: &dyn Storage, path: &Path, keep: u32) -> io::Result<()> {
    let aside = list(storage, path)?;
    let surplus = aside.len().saturating_sub(keep as usize);
    aside.iter().take(surplus).try_for_each(|path| storage.remove(path))
}

/// `20261120-101500-0000`
fn is_stamp(text: &str) -> bool {
    text.len() == 20
        && text.bytes().enumerate().all(|(index, byte)| match index {
            8 | 15 => byte == b'-',
            _ => byte.is_ascii_digit(),
        })
}

#[cfg(test)]
mod tests {
    use bbq_storage::DiskStorage;

    use super::*;

    #[test]
    fn a_name_is_behind_the_last_one_whatever_the_clock_says() {
        let path = Path::new("out.log");
        let next = |last: &str| {
            let name = next_name(&DiskStorage, path, Some(Path::new(last)), Utc::now());
            name.unwrap().display().to_string()
        };
        assert_eq!(next("out.log.29991231-235958-0007"), "out.log.29991231-235958-0008");
        assert_eq!(next("out.log.29991231-235958-9999"), "out.log.29991231-235959-0000");
        assert!(next("out.log.20000101-000000-0007").ends_with("-0000"));
    }
}

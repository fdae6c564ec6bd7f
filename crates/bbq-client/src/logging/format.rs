//! The format of a line.

/// The format of a record's line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// `2026-11-20T11:33:49.175038Z WARN app::db: slow query ms=1200 table="users"`; control characters are escaped, so that a
    /// record is always one line.
    #[default]
    Text,
    /// `{"time":"...","level":"WARN","target":"app::db","message":"slow query","fields":{"ms":1200,"table":"users"}}`
    Json,
}

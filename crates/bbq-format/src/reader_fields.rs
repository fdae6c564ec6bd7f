//! How people name the fields that readers know of messages.

/// Short names for fields of readers, each with its whole name.
pub const FIELD_ALIASES: [(&str, &str); 5] = [
    ("file", "log.file.path"),
    ("pod", "k8s.pod.name"),
    ("namespace", "k8s.namespace.name"),
    ("container", "k8s.container.name"),
    ("uid", "k8s.pod.uid"),
];

/// The whole name of a field, by its short one or itself.
pub(crate) fn whole_name(name: &str) -> &str {
    FIELD_ALIASES.iter().find(|(short, _)| *short == name).map_or(name, |(_, whole)| *whole)
}

//! The SPECs of sinks for objects.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bbq_sink::{Kind, Now, OpenError, PROXY, Proxy, Resolver, Sink, Target, tls_options};
use bbq_spec::{ConfigError, Query, Secret, SpecOption, Values, has_user};
use bbq_storage::Storage;
use bbq_tls::ClientTls;
use object_store::RetryConfig;
use object_store::aws::{AmazonS3Builder, S3ConditionalPut};

use super::chains::Chains;
use super::connector::Connector;
use super::directory::Directory;
use super::folder;
use super::settings::ObjectSettings;
use super::sink::ObjectSink;
use super::store::Store;

/// An object of this size costs little more to write and to read than its bytes.
const BYTES_DEFAULT: u64 = 8 * 1024 * 1024;
/// Two objects of each lane are in memory.
const BYTES_MAX: u64 = 256 * 1024 * 1024;
const SECONDS_DEFAULT: u64 = 60;
const SECONDS_MAX: u64 = 24 * 3600;
/// What zstd does by default.
const LEVEL_DEFAULT: u64 = 3;

const BYTES: SpecOption = SpecOption {
    key: "object_bytes",
    values: Values::Size(1024..=BYTES_MAX),
    default: "8MiB",
    meaning: "an object is written when it has so many compressed bytes; zstd compresses 128 KiB of messages at a time",
};
const SECONDS: SpecOption = SpecOption {
    key: "object_seconds",
    values: Values::Number(1..=SECONDS_MAX),
    default: "60",
    meaning: "an object is written so long after its first message came; until then its messages stay in the spool",
};
const LEVEL: SpecOption =
    SpecOption { key: "level", values: Values::Number(1..=19), default: "3", meaning: "the level of zstd" };
const FOLDER_REMEDY: &str =
    "fields stand in an option of their own; leave them out here, and add folder={date:%Y/%m/%d}";
const FOLDER: SpecOption = SpecOption {
    key: "folder",
    values: Values::Text { form: "TEXT with {date}, such as {date:%Y/%m/%d}", pattern: "" },
    default: "none",
    meaning: "the folder of an object, in front of the ID: by when its first message was received (UTC)",
};

/// `s3://BUCKET/PREFIX`
pub static S3: Kind = Kind {
    word: "s3",
    argument: "//BUCKET[/PREFIX]",
    summary: "writes objects to S3, each message exactly once",
    options: &[
        BYTES,
        SECONDS,
        FOLDER,
        LEVEL,
        SpecOption {
            key: "endpoint",
            values: Values::Text { form: "URL", pattern: "" },
            default: "AWS_ENDPOINT_URL, or Amazon's",
            meaning: "the server, such as `https://HOST:PORT`; then the bucket is in the path unless `path_style=off`",
        },
        SpecOption {
            key: "region",
            values: Values::Text { form: "NAME", pattern: "" },
            default: "AWS_REGION, or us-east-1",
            meaning: "the region of the bucket",
        },
        SpecOption {
            key: "access_key_id",
            values: Values::Text { form: "ID", pattern: "" },
            default: "AWS_ACCESS_KEY_ID, or the role of the machine",
            meaning: "the id of the key; needs `secret_access_key_file` or `secret_access_key_env`",
        },
        SpecOption {
            key: "secret_access_key",
            values: Values::Secret,
            default: "AWS_SECRET_ACCESS_KEY",
            meaning: "the secret of `access_key_id`",
        },
        SpecOption {
            key: "path_style",
            values: Values::Words(&["on", "off"]),
            default: "on",
            meaning: "whether the bucket is in the path of the URL, or in the name of the host",
        },
        PROXY,
        tls_options::CA,
    ],
    is_exclusive: false,
    parse: parse_s3,
};

/// `objects:DIRECTORY`
pub static OBJECTS: Kind = Kind {
    word: "objects",
    argument: "DIRECTORY",
    summary: "writes objects to a directory, each message exactly once",
    options: &[BYTES, SECONDS, FOLDER, LEVEL],
    is_exclusive: false,
    parse: parse_directory,
};

fn settings(shown: String, query: &mut Query<'_>) -> Result<ObjectSettings, ConfigError> {
    let bytes = query.take_number(BYTES.key)?.unwrap_or(BYTES_DEFAULT);
    let seconds = query.take_number(SECONDS.key)?.unwrap_or(SECONDS_DEFAULT);
    let level = query.take_number(LEVEL.key)?.unwrap_or(LEVEL_DEFAULT);
    Ok(ObjectSettings {
        name: query.name().to_owned(),
        shown,
        bytes: usize::try_from(bytes).unwrap_or(usize::MAX),
        age: Duration::from_secs(seconds),
        folder: query.take(FOLDER.key, folder::parse)?,
        level: i32::try_from(level).unwrap_or(i32::MAX),
    })
}

fn parse_directory(argument: &str, query: &mut Query<'_>) -> Result<Arc<dyn Target>, ConfigError> {
    let shown = format!("objects:{argument}");
    if argument.is_empty() {
        return Err(ConfigError::new(format!("{shown:?}: it has no directory; write objects:DIRECTORY")));
    }
    if argument.contains("{date") {
        return Err(ConfigError::new(format!("{shown:?}: {FOLDER_REMEDY}")));
    }
    let settings = settings(shown, query)?;
    Ok(Arc::new(DirectoryTarget { settings, directory: PathBuf::from(argument) }))
}

fn parse_s3(argument: &str, query: &mut Query<'_>) -> Result<Arc<dyn Target>, ConfigError> {
    let shown = format!("s3:{argument}");
    let wrong = |why: &str| ConfigError::new(format!("{shown:?}: {why}; write s3://BUCKET/PREFIX"));
    let rest = argument.strip_prefix("//").unwrap_or_default();
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    if bucket.is_empty() || !bucket.bytes().all(is_name) {
        return Err(wrong("it has no name of a bucket"));
    }
    let prefix = prefix.trim_end_matches('/');
    if prefix.contains('{') {
        return Err(ConfigError::new(format!("{shown:?}: {FOLDER_REMEDY}")));
    }
    if prefix.split('/').any(|part| part.is_empty() || part == "." || part == "..") && !prefix.is_empty() {
        return Err(wrong("the prefix has an empty part"));
    }
    let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
    let text = |query: &mut Query<'_>, key| query.take(key, |text| Ok(text.to_owned()));
    let endpoint = query.take("endpoint", endpoint)?;
    let region = text(query, "region")?;
    let access_key_id = text(query, "access_key_id")?;
    let secret_access_key = query.take_secret("secret_access_key")?;
    if access_key_id.is_some() != secret_access_key.is_some() {
        return Err(wrong("access_key_id and secret_access_key_file (or _env) need each other"));
    }
    let is_path_style = query.take_word("path_style", &[("on", true), ("off", false)])?.unwrap_or(true);
    let proxy = Proxy::take(&shown, query)?;
    let ca = query.take("tls_ca", |path| Ok(PathBuf::from(path)))?;
    let tls = ClientTls { ca, certificate: None };
    tls.read().map_err(|error| ConfigError::new(format!("{shown:?}: {error}")))?;
    let bucket = bucket.to_owned();
    let settings = settings(shown.clone(), query)?;
    Ok(Arc::new(S3Target {
        settings,
        bucket,
        prefix,
        endpoint,
        region,
        access_key_id,
        secret_access_key,
        is_path_style,
        proxy,
        tls,
    }))
}

#[derive(Debug)]
struct DirectoryTarget {
    settings: ObjectSettings,
    directory: PathBuf,
}

#[derive(Debug)]
struct S3Target {
    settings: ObjectSettings,
    bucket: String,
    /// Empty, or ends with a slash.
    prefix: String,
    endpoint: Option<String>,
    region: Option<String>,
    access_key_id: Option<String>,
    secret_access_key: Option<Secret>,
    is_path_style: bool,
    proxy: Proxy,
    tls: ClientTls,
}

impl Target for DirectoryTarget {
    fn memory_bytes_min(&self) -> u64 {
        2 * self.settings.bytes as u64
    }

    fn directory(&self) -> Option<&Path> {
        Some(&self.directory)
    }

    fn open(&self, _: &Arc<dyn Storage>, state: Option<&str>, _: Now) -> Result<Box<dyn Sink>, OpenError> {
        open(&self.settings, Store::Directory(Directory::new(self.directory.clone())), state)
    }
}

impl Target for S3Target {
    fn memory_bytes_min(&self) -> u64 {
        2 * self.settings.bytes as u64
    }

    fn open(&self, _: &Arc<dyn Storage>, state: Option<&str>, _: Now) -> Result<Box<dyn Sink>, OpenError> {
        let not_yet = |error: &dyn std::fmt::Display| {
            OpenError::NotYet(std::io::Error::other(format!("{}: {error}", self.settings.shown)))
        };
        let tls = self.tls.read().map_err(|error| not_yet(&error))?;
        let resolver = Resolver::start().map_err(OpenError::NotYet)?;
        // The driver retries, so that a server that hangs is known at once.
        let retry = RetryConfig { max_retries: 0, ..RetryConfig::default() };
        let mut builder = AmazonS3Builder::from_env()
            .with_bucket_name(&self.bucket)
            .with_allow_http(true)
            .with_virtual_hosted_style_request(!self.is_path_style)
            .with_conditional_put(S3ConditionalPut::ETagMatch)
            .with_retry(retry)
            .with_http_connector(Connector::new(resolver, tls, &self.proxy));
        if let Some(endpoint) = &self.endpoint {
            builder = builder.with_endpoint(if self.is_path_style {
                endpoint.clone()
            } else {
                of_bucket(endpoint, &self.bucket)
            });
        }
        if let Some(region) = &self.region {
            builder = builder.with_region(region);
        }
        if let (Some(id), Some(secret)) = (&self.access_key_id, &self.secret_access_key) {
            builder = builder.with_access_key_id(id).with_secret_access_key(secret.expose());
        }
        let bucket = builder.build().map_err(|error| not_yet(&error))?;
        open(&self.settings, Store::Bucket(bucket, self.prefix.clone()), state)
    }
}

fn open(settings: &ObjectSettings, store: Store, state: Option<&str>) -> Result<Box<dyn Sink>, OpenError> {
    let chains = match state.and_then(Chains::parse) {
        Some(chains) => chains,
        None => Chains::new().map_err(OpenError::NotYet)?,
    };
    let sink = ObjectSink::new(settings.clone(), store, chains).map_err(OpenError::NotYet)?;
    Ok(Box::new(sink))
}

/// Reads the URL of a server.
fn endpoint(url: &str) -> Result<String, String> {
    // It would be in the log and in the status.
    if has_user(url) {
        return Err(
            "it has a user or a password; write it without, and use access_key_id and secret_access_key_file"
                .to_owned(),
        );
    }
    if !url.starts_with("http://") && !url.starts_with("https://") {
        return Err(format!("{url:?} is not a URL such as https://HOST:PORT"));
    }
    Ok(url.trim_end_matches('/').to_owned())
}

/// The endpoint with the bucket in its host's name, where it may stand already. The library takes any endpoint for that of the bucket.
fn of_bucket(endpoint: &str, bucket: &str) -> String {
    match endpoint.split_once("://") {
        Some((scheme, rest)) if !rest.starts_with(&format!("{bucket}.")) => {
            format!("{scheme}://{bucket}.{rest}")
        }
        _ => endpoint.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::of_bucket;
    use bbq_sink::Kinds;

    use super::{OBJECTS, S3};

    static KINDS: Kinds = Kinds { present: &[&OBJECTS, &S3], left_out: &[] };

    #[test]
    fn the_bucket_is_in_the_name_of_the_host_without_path_style() {
        for (endpoint, host) in [
            ("https://s3.example:9000", "https://logs.s3.example:9000"),
            ("https://logs.s3.example", "https://logs.s3.example"),
            ("https://other-team.s3.example", "https://logs.other-team.s3.example"),
            ("http://logs-2.s3.example", "http://logs.logs-2.s3.example"),
        ] {
            assert_eq!(of_bucket(endpoint, "logs"), host);
        }
    }

    #[test]
    fn mistakes_in_the_spec_are_named() {
        for (spec, words) in [
            ("s3:bucket", "no name of a bucket"),
            ("s3://", "no name of a bucket"),
            ("s3:///prefix", "no name of a bucket"),
            ("s3://bucket/a//b", "empty part"),
            ("s3://bucket/a/../b", "empty part"),
            ("s3://bucket?endpoint=host:9000", "https://HOST:PORT"),
            ("s3://bucket?endpoint=http://me:sesame@host:9000", "secret_access_key_file"),
            ("s3://bucket?access_key_id=me", "need each other"),
            ("s3://bucket?secret_access_key=sesame", "secret_access_key_file=PATH"),
            ("s3://bucket?tls_ca=/nowhere", "/nowhere"),
            ("s3://bucket?level=20", "19"),
            ("s3://bucket/{date:%Y}", "add folder={date:%Y/%m/%d}"),
            ("objects:/tmp/{date}", "add folder={date:%Y/%m/%d}"),
            ("objects:/tmp/x?folder={host}", "{host} cannot be in a folder; allowed: {date}"),
            ("objects:", "no DIRECTORY"),
            ("objects:/tmp/x?object_bytes=1", "object_bytes"),
            ("objects:/tmp/x?endpoint=http://host", "unknown option"),
        ] {
            let error = KINDS.parse(spec).map(|spec| spec.text).unwrap_err().to_string();
            assert!(error.contains(words) && !error.contains("sesame"), "{spec}: {error}");
        }
        for spec in
            ["s3://bucket", "s3://bucket/a/b/?endpoint=http://host:1&region=x", "objects:/tmp/x?level=1"]
        {
            assert!(KINDS.parse(spec).is_ok(), "{spec}");
        }
    }
}

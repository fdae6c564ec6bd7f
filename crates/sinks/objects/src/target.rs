//! The SPECs of sinks for objects.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bbq_sink::{Kind, Now, OpenError, PROXY, Sink, Target, tls_options};
use bbq_spec::{ConfigError, Query, Secret, SpecOption, Values, has_user};
use bbq_storage::Storage;
use object_store::StaticCredentialProvider;
use object_store::aws::{
    AmazonS3Builder, AmazonS3ConfigKey, AwsCredential, AwsCredentialProvider, S3ConditionalPut,
};

use super::aws_files::{AwsFiles, Profile, Source};
use super::chains::Chains;
use super::connection::{Connection, once};
use super::connector::Connector;
use super::directory::Directory;
use super::folder;
use super::renewed::Renewed;
use super::settings::ObjectSettings;
use super::sink::ObjectSink;
use super::store::{Bucket, Cloud, Remote, Store};

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
    meaning: "the compressed size at which an object is written; zstd compresses 128 KiB of messages at a time",
};
const SECONDS: SpecOption = SpecOption {
    key: "object_seconds",
    values: Values::Number(1..=SECONDS_MAX),
    default: "60",
    meaning: "how long an object waits for more messages after its first one; until it is written, its messages stay in the spool",
};
const LEVEL: SpecOption =
    SpecOption { key: "level", values: Values::Number(1..=19), default: "3", meaning: "the level of zstd" };
const FOLDER_REMEDY: &str =
    "fields stand in an option of their own; leave them out here, and add folder={date:%Y/%m/%d}";
const FOLDER: SpecOption = SpecOption {
    key: "folder",
    values: Values::Text { form: "TEXT with {date}, such as {date:%Y/%m/%d}", pattern: "" },
    default: "none",
    meaning: "the folder of an object, before the ID; the date is when its first message was received (UTC)",
};

/// What [`settings`] takes.
pub(super) const OBJECT_OPTIONS: [SpecOption; 4] = [BYTES, SECONDS, FOLDER, LEVEL];

/// In their order.
const ENDPOINT_VARIABLES: [&str; 2] = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"];

static CLOUD: Cloud = Cloud {
    condition: "If-None-Match: *",
    has_suffix_ranges: true,
    no_bucket: "check that the bucket exists; bbq does not create it",
    no_access: "check access_key_id and secret_access_key, or the profile, and what they may do (s3:PutObject, s3:GetObject)",
};

/// `s3://BUCKET/PREFIX`
pub static S3: Kind = Kind {
    word: "s3",
    argument: "//BUCKET[/PREFIX]",
    summary: "writes objects to S3, each message exactly once",
    options: &[
        &OBJECT_OPTIONS,
        &[
            SpecOption {
                key: "endpoint",
                values: Values::Text { form: "URL", pattern: "" },
                default: "AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the profile's, or Amazon's",
                meaning: "the server, such as `https://HOST:PORT`; then the bucket is in the path unless `path_style=off`",
            },
            SpecOption {
                key: "region",
                values: Values::Text { form: "NAME", pattern: "" },
                default: "AWS_REGION, the profile's, or us-east-1",
                meaning: "the region of the bucket",
            },
            SpecOption {
                key: "access_key_id",
                values: Values::Text { form: "ID", pattern: "" },
                default: "AWS_ACCESS_KEY_ID, the profile's, or the role of the machine",
                meaning: "the id of the key; needs `secret_access_key_file` or `secret_access_key_env`",
            },
            SpecOption {
                key: "secret_access_key",
                values: Values::Secret,
                default: "AWS_SECRET_ACCESS_KEY",
                meaning: "the secret of `access_key_id`",
            },
            SpecOption {
                key: "profile",
                values: Values::Text { form: "NAME", pattern: "" },
                default: "AWS_PROFILE, or default",
                meaning: "the profile in `~/.aws/credentials` and `~/.aws/config` with the keys, region and endpoint; changed keys are read again",
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
    ],
    is_exclusive: false,
    parse: parse_s3,
};

/// `objects:DIRECTORY`
pub static OBJECTS: Kind = Kind {
    word: "objects",
    argument: "DIRECTORY",
    summary: "writes objects to a directory, each message exactly once",
    options: &[&OBJECT_OPTIONS],
    is_exclusive: false,
    parse: parse_directory,
};

pub(super) fn settings(shown: String, query: &mut Query<'_>) -> Result<ObjectSettings, ConfigError> {
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

/// Reads `BUCKET/PREFIX`. The prefix is empty, or ends with a slash.
pub(super) fn bucket_and_prefix(text: &str) -> Result<(&str, String), &'static str> {
    let (bucket, prefix) = text.split_once('/').unwrap_or((text, ""));
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    if bucket.is_empty() || !bucket.bytes().all(is_name) {
        return Err("it has no name of a bucket");
    }
    let prefix = prefix.trim_end_matches('/');
    if prefix.contains('{') {
        return Err(FOLDER_REMEDY);
    }
    if prefix.split('/').any(|part| part.is_empty() || part == "." || part == "..") && !prefix.is_empty() {
        return Err("the prefix has an empty part");
    }
    Ok((bucket, if prefix.is_empty() { String::new() } else { format!("{prefix}/") }))
}

fn parse_s3(argument: &str, query: &mut Query<'_>) -> Result<Arc<dyn Target>, ConfigError> {
    let shown = format!("s3:{argument}");
    let wrong = |why: &str| ConfigError::new(format!("{shown:?}: {why}; write s3://BUCKET/PREFIX"));
    let (bucket, prefix) =
        bucket_and_prefix(argument.strip_prefix("//").unwrap_or_default()).map_err(wrong)?;
    let text = |query: &mut Query<'_>, key| query.take(key, |text| Ok(text.to_owned()));
    let endpoint = query.take("endpoint", endpoint)?;
    let region = text(query, "region")?;
    let access_key_id = text(query, "access_key_id")?;
    let secret_access_key = query.take_secret("secret_access_key")?;
    if access_key_id.is_some() != secret_access_key.is_some() {
        return Err(wrong("access_key_id and secret_access_key_file (or _env) need each other"));
    }
    let profile = text(query, "profile")?;
    if profile.is_some() && access_key_id.is_some() {
        return Err(wrong("profile and access_key_id contradict each other; leave one of the two out"));
    }
    let files = AwsFiles::new(profile.as_deref(), &variable);
    let is_path_style = query.take_word("path_style", &[("on", true), ("off", false)])?.unwrap_or(true);
    let connection = Connection::take(&shown, query)?;
    let bucket = bucket.to_owned();
    let settings = settings(shown.clone(), query)?;
    let keys = access_key_id.zip(secret_access_key);
    let target =
        S3Target { settings, bucket, prefix, endpoint, region, keys, files, is_path_style, connection };
    if target.wants_files() {
        let read = target.files.read().and_then(|profile| target.check(profile, &variable));
        read.map_err(|problem| ConfigError::new(format!("{shown:?}: {problem}")))?;
    }
    Ok(Arc::new(target))
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
    /// Of the SPEC.
    keys: Option<(String, Secret)>,
    files: AwsFiles,
    is_path_style: bool,
    connection: Connection,
}

impl Target for DirectoryTarget {
    fn memory_bytes_min(&self) -> u64 {
        self.settings.memory_bytes_min()
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
        self.settings.memory_bytes_min()
    }

    fn open(&self, _: &Arc<dyn Storage>, state: Option<&str>, _: Now) -> Result<Box<dyn Sink>, OpenError> {
        let not_yet = |error: &dyn std::fmt::Display| self.settings.not_yet(error);
        let connector = self.connection.connector().map_err(|error| not_yet(&error))?;
        let uploads = connector.uploads();
        let profile = match self.wants_files() {
            true => Some(self.files.read().map_err(|error| not_yet(&error))?),
            false => None,
        };
        let builder = self.builder(connector, profile).map_err(|error| not_yet(&error))?;
        let bucket = builder.build().map_err(|error| not_yet(&error))?;
        let (remote, prefix) = (Remote::S3(bucket), self.prefix.clone());
        let bucket = Bucket { remote, prefix, cloud: &CLOUD, uploads };
        open(&self.settings, Store::Bucket(bucket), state)
    }
}

impl S3Target {
    /// Whether something is left to the shared files.
    fn wants_files(&self) -> bool {
        self.keys.is_none() || self.region.is_none() || self.endpoint.is_none()
    }

    /// Whether the credentials are those of the shared files, if they have any.
    fn wants_keys(&self, environment: &dyn Fn(&str) -> Option<String>) -> bool {
        let of_environment =
            || ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"].iter().any(|name| environment(name).is_some());
        self.keys.is_none() && (self.files.is_of_spec() || !of_environment())
    }

    /// What is wrong in the files with what this sink needs of them. The profile that the SPEC names must have credentials: those of the
    /// machine are another identity.
    fn check(&self, profile: Profile, environment: &dyn Fn(&str) -> Option<String>) -> Result<(), String> {
        if self.wants_keys(environment) {
            match profile.source? {
                Source::None if self.files.is_of_spec() => return Err(self.files.no_keys()),
                _ => {}
            }
        }
        let is_given = |name: &&str| environment(name).is_some();
        match self.endpoint.is_some() || ENDPOINT_VARIABLES.iter().any(is_given) {
            true => Ok(()),
            false => profile.endpoint.map(drop),
        }
    }

    fn builder(&self, connector: Connector, profile: Option<Profile>) -> Result<AmazonS3Builder, String> {
        let environment = AmazonS3Builder::from_env();
        let of_environment = |key| environment.get_config_value(&key);
        let (of_profile, region) = profile.map(|profile| (profile.endpoint, profile.region)).unzip();
        let elsewhere = || {
            let of_environment = of_environment(AmazonS3ConfigKey::S3Endpoint)
                .or_else(|| of_environment(AmazonS3ConfigKey::Endpoint));
            let found = of_environment.map_or_else(|| of_profile.unwrap_or(Ok(None)), |url| Ok(Some(url)))?;
            let checked = found.map(|url| endpoint(&url)).transpose();
            checked.map_err(|problem| format!("the endpoint of the environment or the profile: {problem}"))
        };
        let endpoint = self.endpoint.clone().map_or_else(elsewhere, |given| Ok::<_, String>(Some(given)))?;
        let region =
            self.region.clone().or_else(|| of_environment(AmazonS3ConfigKey::Region)).or(region.flatten());
        // Credentials of the environment do not count beside a profile of the SPEC.
        let begin = if self.files.is_of_spec() { AmazonS3Builder::new() } else { environment.clone() };
        let mut builder = begin
            .with_bucket_name(&self.bucket)
            .with_allow_http(true)
            .with_virtual_hosted_style_request(!self.is_path_style)
            .with_conditional_put(S3ConditionalPut::ETagMatch)
            .with_retry(once())
            .with_http_connector(connector);
        if let Some(region) = region {
            builder = builder.with_region(region);
        }
        let credentials = self.credentials(&builder)?;
        // This key, as the library takes it before that of any service.
        if let Some(endpoint) = endpoint {
            let endpoint = if self.is_path_style { endpoint } else { of_bucket(&endpoint, &self.bucket) };
            builder = builder.with_config(AmazonS3ConfigKey::S3Endpoint, endpoint);
        }
        Ok(builder.with_credentials(credentials))
    }

    /// In AWS's order: the SPEC, the environment, the shared files; and what `builder` finds: a token, the container, the machine.
    fn credentials(&self, builder: &AmazonS3Builder) -> Result<AwsCredentialProvider, String> {
        if let Some((id, secret)) = &self.keys {
            return Ok(fixed(id, secret, None));
        }
        if !self.wants_keys(&variable) {
            return found_by(builder.clone());
        }
        let (files, builder, had_keys) =
            (self.files.clone(), builder.clone(), AtomicBool::new(self.files.is_of_spec()));
        Ok(Arc::new(Renewed::new(files.paths(), move || match files.read()?.source? {
            Source::Keys { id, secret, token } => {
                had_keys.store(true, Ordering::Relaxed);
                Ok(fixed(&id, &secret, token.as_ref()))
            }
            Source::WebIdentity { token_file, role_arn, session_name } => {
                had_keys.store(true, Ordering::Relaxed);
                let mut builder = builder
                    .clone()
                    .with_config(AmazonS3ConfigKey::WebIdentityTokenFile, token_file)
                    .with_config(AmazonS3ConfigKey::RoleArn, role_arn);
                if let Some(name) = session_name {
                    builder = builder.with_config(AmazonS3ConfigKey::RoleSessionName, name);
                }
                found_by(builder)
            }
            // A file that is replaced may not be there for a moment.
            Source::None if had_keys.load(Ordering::Relaxed) => Err(files.no_keys()),
            Source::None => found_by(builder.clone()),
        })))
    }
}

/// What a builder takes for credentials.
fn found_by(builder: AmazonS3Builder) -> Result<AwsCredentialProvider, String> {
    let bucket = builder.build().map_err(|error| error.to_string())?;
    Ok(Arc::clone(bucket.credentials()))
}

fn fixed(id: &str, secret: &Secret, token: Option<&Secret>) -> AwsCredentialProvider {
    Arc::new(StaticCredentialProvider::new(AwsCredential {
        key_id: id.to_owned(),
        secret_key: secret.expose().to_owned(),
        token: token.map(|token| token.expose().to_owned()),
    }))
}

/// An environment variable that is set and not empty.
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

pub(super) fn open(
    settings: &ObjectSettings,
    store: Store,
    state: Option<&str>,
) -> Result<Box<dyn Sink>, OpenError> {
    let chains = match state.and_then(Chains::parse) {
        Some(chains) => chains,
        None => Chains::new().map_err(OpenError::NotYet)?,
    };
    let sink = ObjectSink::new(settings.clone(), store, chains).map_err(OpenError::NotYet)?;
    Ok(Box::new(sink))
}

/// Reads the URL of a server.
pub(super) fn endpoint(url: &str) -> Result<String, String> {
    // It would be in the log and in the status.
    if has_user(url) {
        return Err(
            "it has a user or a password; write it without, as the options of the sink say who connects"
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
            ("s3://bucket?endpoint=http://me:sesame@host:9000", "user or a password"),
            ("s3://bucket?access_key_id=me", "need each other"),
            ("s3://bucket?access_key_id=me&secret_access_key_env=PATH&profile=x", "contradict each other"),
            ("s3://bucket?profile=no-such-profile", "no profile \"no-such-profile\""),
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
        // With all that the files of who runs the test could say.
        let all = "region=x&endpoint=http://host:1&access_key_id=me&secret_access_key_env=PATH";
        for spec in
            [format!("s3://bucket?{all}"), format!("s3://bucket/a/b/?{all}"), "objects:/tmp/x?level=1".into()]
        {
            assert!(KINDS.parse(&spec).is_ok(), "{spec}");
        }
    }
}

//! The shared files of AWS's tools, `~/.aws/config` and `~/.aws/credentials`: what they say about one profile.
//!
//! ```text
//! config        [default], [profile NAME]: region, endpoint_url, services, keys ..     [services NAME]: s3 = (indented) endpoint_url
//! credentials   [default], [NAME]: aws_access_key_id, aws_secret_access_key, aws_session_token
//! ```
//!
//! What both have counts as `credentials` has it. Not read: keys by IAM Identity Center (`sso_session` ..), by a command
//! (`credential_process`) or of a role that other keys assume (`role_arn`): these are errors, as the keys of the machine would be another
//! identity.
//!
//! Invariant: no error contains a value of a file but names of profiles and services.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use bbq_spec::{Secret, warn_if_others_read};
use configparser::ini::Ini;

/// Several hundred profiles with much said about each.
const FILE_BYTES_MAX: u64 = 1024 * 1024;
const DEFAULT: &str = "default";
const ID: &str = "aws_access_key_id";
const SECRET: &str = "aws_secret_access_key";
const TOKEN: &str = "aws_session_token";

/// An environment variable, if it is set and not empty.
pub(super) type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Where the files are, and which profile of them counts.
#[derive(Clone, Debug)]
pub(super) struct AwsFiles {
    config: Option<PathBuf>,
    credentials: Option<PathBuf>,
    profile: String,
    /// Somebody asks for the profile, so there must be one.
    is_named: bool,
    is_of_spec: bool,
    /// Nobody has named a file or a profile: a home that bbq's user may not look into has none for it.
    may_be_closed: bool,
}

/// What the files say about the profile. What is wrong in a part of it matters to who needs that part.
#[derive(Debug)]
pub(super) struct Profile {
    pub(super) source: Result<Source, String>,
    pub(super) region: Option<String>,
    pub(super) endpoint: Result<Option<String>, String>,
}

/// Where the profile has its credentials from.
#[derive(Debug)]
pub(super) enum Source {
    Keys {
        id: String,
        secret: Secret,
        token: Option<Secret>,
    },
    /// A token, for which Amazon gives the keys of a role.
    WebIdentity {
        token_file: String,
        role_arn: String,
        session_name: Option<String>,
    },
    /// It says nothing about credentials.
    None,
}

type Section = BTreeMap<String, String>;

impl AwsFiles {
    /// `profile` is the one that the SPEC names.
    pub(super) fn new(profile: Option<&str>, environment: Environment<'_>) -> AwsFiles {
        let home = environment("HOME").map(PathBuf::from);
        let place = |variable: &str, name: &str| match (environment(variable), &home) {
            (Some(path), Some(home)) if path.starts_with("~/") => Some(home.join(&path[2..])),
            (Some(path), _) => Some(PathBuf::from(path)),
            (None, home) => home.as_ref().map(|home| home.join(".aws").join(name)),
        };
        let named = profile.map(str::to_owned);
        let named =
            named.or_else(|| environment("AWS_PROFILE")).or_else(|| environment("AWS_DEFAULT_PROFILE"));
        const PLACES: [&str; 2] = ["AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"];
        AwsFiles {
            may_be_closed: named.is_none() && PLACES.iter().all(|place| environment(place).is_none()),
            config: place("AWS_CONFIG_FILE", "config"),
            credentials: place("AWS_SHARED_CREDENTIALS_FILE", "credentials"),
            is_of_spec: profile.is_some(),
            is_named: named.is_some(),
            profile: named.unwrap_or_else(|| DEFAULT.to_owned()),
        }
    }

    /// Both files, there or not.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        self.config.iter().chain(&self.credentials).cloned().collect()
    }

    /// Reads both. A file that is not there is empty.
    pub(super) fn read(&self) -> Result<Profile, String> {
        let read = |path: &Option<PathBuf>| {
            let sections = path.as_deref().map(|path| sections(path, self.may_be_closed)).transpose();
            sections.map(Option::unwrap_or_default)
        };
        let (config, credentials) = (read(&self.config)?, read(&self.credentials)?);
        let of_credentials = credentials.get(&self.profile);
        let of_config = self.of_config(&config);
        if self.is_named && self.profile != DEFAULT && of_config.is_none() && of_credentials.is_none() {
            return Err(format!(
                "there is no profile {:?} in {}; name one that is there (profile=NAME, AWS_PROFILE), or run `aws configure --profile {}`",
                self.profile,
                self.shown(),
                self.profile
            ));
        }
        let nothing = Section::new();
        let view = View {
            files: self,
            config: of_config.unwrap_or(&nothing),
            credentials: of_credentials.unwrap_or(&nothing),
        };
        Ok(Profile {
            source: view.source(),
            region: view.get("region").map(str::to_owned),
            endpoint: view.endpoint(&config),
        })
    }

    fn of_config<'a>(&self, config: &'a BTreeMap<String, Section>) -> Option<&'a Section> {
        let profile = config.iter().find(|(name, _)| words_of(name) == ("profile", &self.profile));
        let default = || config.get(DEFAULT).filter(|_| self.profile == DEFAULT);
        profile.map(|(_, section)| section).or_else(default)
    }

    /// The files, for people.
    fn shown(&self) -> String {
        let paths: Vec<String> = self.paths().iter().map(|path| path.display().to_string()).collect();
        match paths.is_empty() {
            true => "~/.aws (HOME is not set)".to_owned(),
            false => paths.join(" and "),
        }
    }

    /// Whether the SPEC names the profile.
    pub(super) fn is_of_spec(&self) -> bool {
        self.is_of_spec
    }

    /// What is wrong if the profile must have keys and has none.
    pub(super) fn no_keys(&self) -> String {
        format!("profile {:?} in {} has no {ID} and {SECRET}; write both", self.profile, self.shown())
    }
}

/// A profile in both files.
struct View<'a> {
    files: &'a AwsFiles,
    config: &'a Section,
    credentials: &'a Section,
}

impl View<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        let found = self.credentials.get(key).or_else(|| self.config.get(key));
        found.map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The file that has a key.
    fn file_of(&self, key: &str) -> String {
        let is_there = self.credentials.contains_key(key);
        let path = if is_there { &self.files.credentials } else { &self.files.config };
        path.as_ref().map(|path| path.display().to_string()).unwrap_or_default()
    }

    /// In the order of AWS's command line, but for one: keys in `credentials` count before `sso_`, as there are tools that put those of
    /// a sign-in there for programs that cannot sign in.
    fn source(&self) -> Result<Source, String> {
        if let Some(role_arn) = self.get("role_arn") {
            return self.role(role_arn);
        }
        if let Some(keys) = self.keys(self.credentials, self.files.credentials.as_deref())? {
            return Ok(keys);
        }
        for key in ["sso_session", "sso_start_url", "sso_account_id", "credential_process"] {
            if self.get(key).is_some() {
                return Err(self.unsupported(key));
            }
        }
        let keys = self.keys(self.config, self.files.config.as_deref())?;
        Ok(keys.unwrap_or(Source::None))
    }

    fn role(&self, role_arn: &str) -> Result<Source, String> {
        let Some(token_file) = self.get("web_identity_token_file") else {
            let keys = ["source_profile", "credential_source"];
            let key = keys.into_iter().find(|key| self.get(key).is_some()).unwrap_or("role_arn");
            return Err(self.unsupported(key));
        };
        Ok(Source::WebIdentity {
            token_file: token_file.to_owned(),
            role_arn: role_arn.to_owned(),
            session_name: self.get("role_session_name").map(str::to_owned),
        })
    }

    fn unsupported(&self, key: &str) -> String {
        format!(
            "profile {:?} has {key} in {}, which bbq does not support; put {ID} and {SECRET} into a profile and name that \
             (profile=NAME, AWS_PROFILE), or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
            self.files.profile,
            self.file_of(key)
        )
    }

    fn keys(&self, section: &Section, path: Option<&Path>) -> Result<Option<Source>, String> {
        let get = |key: &str| section.get(key).filter(|value| !value.is_empty());
        let (Some(path), (id, secret)) = (path, (get(ID), get(SECRET))) else { return Ok(None) };
        let (Some(id), Some(secret)) = (id, secret) else {
            let (there, missing) = if id.is_some() { (ID, SECRET) } else { (SECRET, ID) };
            return match (id, secret) {
                (None, None) => Ok(None),
                _ => Err(format!(
                    "profile {:?} in {} has {there} and no {missing}; write both",
                    self.files.profile,
                    path.display()
                )),
            };
        };
        warn_if_others_read(path);
        let secret_of = |key: &str, value: &str| {
            Secret::of_text(value).map_err(|problem| format!("{key} in {} {problem}", path.display()))
        };
        let token = get(TOKEN).map(|token| secret_of(TOKEN, token)).transpose()?;
        Ok(Some(Source::Keys { id: id.clone(), secret: secret_of(SECRET, secret)?, token }))
    }

    /// The server for S3: that of the profile's `services`, or of the profile.
    fn endpoint(&self, config: &BTreeMap<String, Section>) -> Result<Option<String>, String> {
        if self.get("ignore_configured_endpoint_urls").is_some_and(|word| word.eq_ignore_ascii_case("true")) {
            return Ok(None);
        }
        if let Some(services) = self.get("services") {
            let section = config.iter().find(|(name, _)| words_of(name) == ("services", services));
            let Some((_, section)) = section else {
                return Err(format!(
                    "profile {:?} has services = {services} in {}, and there is no [services {services}]; write one, or leave the line out",
                    self.files.profile,
                    self.file_of("services")
                ));
            };
            let lines = section.get("s3").map(String::as_str).unwrap_or_default().lines();
            let mut pairs = lines.filter_map(|line| line.split_once('='));
            if let Some((_, url)) = pairs.find(|(key, _)| key.trim() == "endpoint_url") {
                return Ok(Some(url.trim().to_owned()));
            }
        }
        Ok(self.get("endpoint_url").map(str::to_owned))
    }
}

/// The kind and the name of a section, as in `profile NAME`; quotation marks around the name do not belong to it.
fn words_of(section: &str) -> (&str, &str) {
    let (kind, name) = section.split_once(char::is_whitespace).unwrap_or((section, ""));
    let name = name.trim();
    let quoted = |mark: char| name.strip_prefix(mark)?.strip_suffix(mark);
    (kind, quoted('"').or_else(|| quoted('\'')).unwrap_or(name))
}

/// Reads a file. Names of sections and keys are as written. One that is not there is empty, and one that `may_be_closed` to bbq's user, too.
fn sections(path: &Path, may_be_closed: bool) -> Result<BTreeMap<String, Section>, String> {
    let shown = path.display();
    let unreadable = |error| format!("cannot read {shown}: {error}");
    // Before it is opened, as opening a pipe waits for its writer.
    let metadata = match fs::metadata(path) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(BTreeMap::new());
        }
        Err(error) if may_be_closed && error.kind() == ErrorKind::PermissionDenied => {
            return Ok(BTreeMap::new());
        }
        metadata => metadata.map_err(unreadable)?,
    };
    if !metadata.is_file() {
        return Err(format!("{shown} is not a regular file"));
    }
    let mut text = String::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("{shown} is larger than {FILE_BYTES_MAX} bytes"));
    }
    let mut ini = Ini::new_cs();
    ini.set_comment_symbols(&['#', ';']);
    ini.set_multiline(true);
    // Of keys that stand before every section.
    ini.set_default_section("");
    let mut settings = ini.defaults();
    settings.delimiters = vec!['='];
    settings.enable_inline_comments = false;
    ini.load_defaults(settings);
    let read = ini.read(text).map_err(|problem| format!("{shown}: {problem}"))?;
    let pairs = |section: std::collections::HashMap<String, Option<String>>| {
        section.into_iter().map(|(key, value)| (key, without_comment(&value.unwrap_or_default()))).collect()
    };
    Ok(read.into_iter().map(|(name, section)| (name, pairs(section))).collect())
}

/// A comment in a line begins behind a blank.
fn without_comment(value: &str) -> String {
    let bare = |line: &str| {
        let comment = [" #", " ;", "\t#", "\t;"].iter().filter_map(|begin| line.find(begin)).min();
        line[..comment.unwrap_or(line.len())].trim().to_owned()
    };
    value.lines().map(bare).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    /// Files with these texts, as `~/.aws` of a home has them.
    fn home(config: &str, credentials: &str) -> TempDir {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join(".aws")).unwrap();
        fs::write(home.path().join(".aws/config"), config).unwrap();
        fs::write(home.path().join(".aws/credentials"), credentials).unwrap();
        home
    }

    fn read(home: &TempDir, profile: Option<&str>) -> Result<Profile, String> {
        let path = home.path().display().to_string();
        AwsFiles::new(profile, &|name| (name == "HOME").then(|| path.clone())).read()
    }

    fn keys(profile: Profile) -> (String, String, Option<String>) {
        let Ok(Source::Keys { id, secret, token }) = profile.source else { panic!("{profile:?}") };
        (id, secret.expose().to_owned(), token.map(|token| token.expose().to_owned()))
    }

    #[test]
    fn a_profile_is_read_from_both_files() {
        let config = "# comment\n[default]\nregion = eu-west-1 ; near\n\
                      [profile logs]\nregion=eu-north-1\nendpoint_url = https://s3.example:9000\n\
                      aws_access_key_id = OTHER\naws_secret_access_key = other\n\
                      [profile \"two words\"]\naws_access_key_id = W\naws_secret_access_key = w=/+#x\n";
        let credentials = "[default]\naws_access_key_id = ID\naws_secret_access_key = a/b+c==\n\n\
                           [logs]\naws_access_key_id = LOGS\naws_secret_access_key = sesame\naws_session_token = token\n";
        let home = home(config, credentials);
        let default = read(&home, None).unwrap();
        assert_eq!((default.region.as_deref(), &default.endpoint), (Some("eu-west-1"), &Ok(None)));
        assert_eq!(keys(default), ("ID".to_owned(), "a/b+c==".to_owned(), None));
        let logs = read(&home, Some("logs")).unwrap();
        assert_eq!(logs.region.as_deref(), Some("eu-north-1"));
        assert_eq!(logs.endpoint, Ok(Some("https://s3.example:9000".to_owned())));
        assert_eq!(keys(logs), ("LOGS".to_owned(), "sesame".to_owned(), Some("token".to_owned())));
        let words = read(&home, Some("two words")).unwrap();
        assert_eq!(keys(words), ("W".to_owned(), "w=/+#x".to_owned(), None));
    }

    #[test]
    fn the_environment_says_where_the_files_are_and_which_profile_counts() {
        let home = home("[profile logs]\nregion = here\n", "");
        let elsewhere = home.path().join("elsewhere");
        fs::write(&elsewhere, "[logs]\naws_access_key_id = ID\naws_secret_access_key = sesame\n").unwrap();
        let variable = |name: &str| match name {
            "HOME" => Some(home.path().display().to_string()),
            "AWS_SHARED_CREDENTIALS_FILE" => Some("~/elsewhere".to_owned()),
            "AWS_PROFILE" => Some("logs".to_owned()),
            _ => None,
        };
        let profile = AwsFiles::new(None, &variable).read().unwrap();
        assert_eq!(profile.region.as_deref(), Some("here"));
        assert_eq!(keys(profile).0, "ID");
        let other = AwsFiles::new(Some("other"), &variable).read().unwrap_err();
        assert!(other.contains("no profile \"other\"") && other.contains("elsewhere"), "{other}");
        // Without a home there are no files.
        assert!(matches!(AwsFiles::new(None, &|_| None).read().unwrap().source, Ok(Source::None)));
        // Nor in a home that is none.
        let nowhere = |name: &str| (name == "HOME").then(|| "/dev/null".to_owned());
        assert!(matches!(AwsFiles::new(None, &nowhere).read().unwrap().source, Ok(Source::None)));
    }

    #[test]
    fn what_is_not_supported_is_named_with_its_file() {
        for (config, credentials, words) in [
            ("sso_session = corp", "", "sso_session in "),
            ("sso_start_url = https://x", "", "sso_start_url in "),
            ("credential_process = /bin/keys", "", "credential_process in "),
            ("role_arn = arn\nsource_profile = base", "", "source_profile in "),
            ("", "role_arn = arn\ncredential_source = Ec2InstanceMetadata", ".aws/credentials, which"),
            ("role_arn = arn", "", "role_arn in "),
            ("", "aws_access_key_id = ID", "no aws_secret_access_key; write both"),
            ("aws_secret_access_key = sesame", "", "no aws_access_key_id; write both"),
            ("services = dev", "", "no [services dev]"),
            ("[broken", "", "line 2"),
        ] {
            let home = home(&format!("[default]\n{config}\n"), &format!("[default]\n{credentials}\n"));
            let read = read(&home, None).and_then(|profile| profile.source.and(profile.endpoint));
            let error = read.unwrap_err();
            assert!(error.contains(words) && error.contains(".aws/"), "{error}");
            assert!(!error.contains("sesame"), "{error}");
        }
        // Keys that a sign-in left for programs that cannot sign in.
        let signed_in = "[default]\naws_access_key_id = ID\naws_secret_access_key = sesame\n";
        assert_eq!(keys(read(&home("[default]\nsso_session = corp\n", signed_in), None).unwrap()).0, "ID");
        let folder = home("", "");
        fs::remove_file(folder.path().join(".aws/config")).unwrap();
        fs::create_dir(folder.path().join(".aws/config")).unwrap();
        assert!(read(&folder, None).unwrap_err().ends_with(".aws/config is not a regular file"));
    }

    #[test]
    fn the_endpoint_of_a_service_goes_before_that_of_the_profile() {
        let services = "services = dev\nendpoint_url = http://all\n[services dev]\ndynamodb =\n  endpoint_url = http://no\n\
                        s3 =\n  # comment\n  endpoint_url = http://s3.example\n  addressing_style = path\n";
        let endpoint =
            |text: &str| read(&home(&format!("[default]\n{text}"), ""), None).unwrap().endpoint.unwrap();
        assert_eq!(endpoint(services).as_deref(), Some("http://s3.example"));
        assert_eq!(
            endpoint("services = dev\nendpoint_url = http://all\n[services dev]\n").as_deref(),
            Some("http://all")
        );
        assert_eq!(endpoint("endpoint_url = http://all\nignore_configured_endpoint_urls = true\n"), None);
    }

    #[test]
    fn a_role_may_come_by_a_token() {
        let home = home("[default]\nrole_arn = arn\nweb_identity_token_file = /run/token\n", "");
        let source = read(&home, None).unwrap().source.unwrap();
        let Source::WebIdentity { token_file, role_arn, session_name } = source else {
            panic!("no web identity");
        };
        assert_eq!((token_file.as_str(), role_arn.as_str(), session_name), ("/run/token", "arn", None));
    }
}

//! The manifest: its ports are those of the configuration in it, and bbq serves with that configuration.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::page::{block, blocks, put};
use super::{shell, text, wait_until, yaml};
use crate::support::program::Program;
use crate::support::{BBQ, Setup, free_ports, run};

/// Ports of bbq's defaults, and those that OpenTelemetry has for gRPC and HTTP.
const PORTS: [(&str, u64, &str); 5] = [
    ("syslog-udp", 5514, "UDP"),
    ("syslog-tcp", 5514, "TCP"),
    ("otlp-grpc", 4317, "TCP"),
    ("otlp-http", 4318, "TCP"),
    ("http", 7780, "TCP"),
];

fn object<'a>(documents: &'a [Value], kind: &str) -> &'a Value {
    let found = documents.iter().find(|document| document["kind"] == kind);
    found.unwrap_or_else(|| panic!("there is no {kind}"))
}

#[test]
fn the_objects_fit_each_other_and_the_configuration() {
    let blocks = yaml::of_section("Kubernetes");
    let [manifest, agent] = [0, 1].map(|index| &blocks[index]);
    assert_eq!(blocks.len(), 4, "the others are of the nodes, below");
    let service = object(manifest, "Service");
    let pod = &object(manifest, "Deployment")["spec"]["template"];
    let container = &pod["spec"]["containers"][0];
    assert_eq!(service["spec"]["selector"], pod["metadata"]["labels"]);
    let ports = |list: &Value, key: &str| {
        let port = |port: &Value| {
            (port["name"].to_string(), port[key].as_u64().expect("a number"), port["protocol"].to_string())
        };
        list.as_array().expect("ports").iter().map(port).collect::<Vec<_>>()
    };
    let expected =
        PORTS.map(|(name, port, protocol)| (format!("\"{name}\""), port, format!("\"{protocol}\"")));
    assert_eq!(ports(&service["spec"]["ports"], "port"), expected);
    assert_eq!(ports(&container["ports"], "containerPort"), expected);
    let [name, namespace] =
        ["name", "namespace"].map(|key| service["metadata"][key].as_str().expect("a name"));
    let endpoint = &agent[0]["exporters"]["otlp_grpc"]["endpoint"];
    assert_eq!(*endpoint, format!("{name}.{namespace}.svc.cluster.local:4317"));

    let (file, toml) = configuration(manifest);
    let mounts = container["volumeMounts"].as_array().expect("mounts");
    let mount =
        |name: &str| mounts.iter().find(|mount| mount["name"] == name).expect("a mount")["mountPath"].clone();
    let arguments = serde_json::json!([
        "serve",
        "--config",
        format!("{}/{file}", mount("config").as_str().expect("a path"))
    ]);
    assert_eq!(container["args"], arguments);
    let data = mount("data").as_str().expect("a path").to_owned();
    assert!(
        toml.contains(&format!("data = \"{data}\"")) && toml.contains(&format!("file:{data}/")),
        "{toml}"
    );
    for (name, port, _) in PORTS {
        let (protocol, transport) = name.split_once('-').unwrap_or((name, "tcp"));
        let transport = if protocol == "otlp" { "tcp" } else { transport };
        let listener = format!("\"{protocol}+{transport}://0.0.0.0:{port}");
        assert!(toml.contains(&listener), "{listener} is not in\n{toml}");
    }
    let defaults = bbq_server::config::FILE_KEYS.iter().find(|known| known.option.key == "listen");
    let defaults = defaults.expect("a key").option.default;
    for (name, port, _) in PORTS.into_iter().filter(|(name, ..)| !name.starts_with("otlp")) {
        assert!(defaults.contains(&format!("://127.0.0.1:{port}")), "{name}: {port} is not in {defaults}");
    }
}

/// The name and the text of bbq's configuration.
fn configuration(manifest: &[Value]) -> (String, String) {
    let data = object(manifest, "ConfigMap")["data"].as_object().expect("files");
    let (name, text) = data.iter().next().expect("a file");
    (name.clone(), text.as_str().expect("text").to_owned())
}

#[test]
fn bbq_serves_with_the_configuration() {
    let manifest = yaml::of_section("Kubernetes").swap_remove(0);
    let (_, toml) = configuration(&manifest);
    let ports: Vec<String> = free_ports(4).iter().map(|port| format!("127.0.0.1:{port}")).collect();
    let mut setup = Setup::new(&[]);
    let directory = setup.path().display().to_string();
    let toml = put(
        &toml,
        &[
            ("0.0.0.0:5514", &ports[0]),
            ("0.0.0.0:4317", &ports[1]),
            ("0.0.0.0:4318", &ports[2]),
            ("0.0.0.0:7780", &ports[3]),
            ("/var/lib/bbq", &directory),
        ],
    );
    setup.set_sinks(&[]);
    let setup = setup.config(&toml);
    let server = setup.start();
    // The probe, at this server's admin.
    let container = &object(&manifest, "Deployment")["spec"]["template"]["spec"]["containers"][0];
    let probe = container["readinessProbe"]["exec"]["command"].as_array().expect("a command");
    let probe: Vec<&str> = probe.iter().map(|word| word.as_str().expect("text")).collect();
    assert_eq!(probe[0], "/usr/bin/bbq");
    run(Command::new(BBQ).args(&probe[1..]).args(["--admin", &setup.admin()]), b"");
    let last = blocks("OpenTelemetry SDKs", "sh").len() - 1;
    let record = block("OpenTelemetry SDKs", "sh", last);
    for port in [&ports[2], &ports[3]] {
        run(&mut shell(&put(&record, &[("127.0.0.1:7780", port)]), setup.path()), b"");
    }
    let port = ports[0].rsplit_once(':').expect("a port").1;
    let logger = put(&block("logger", "sh", 0), &[("--port 5514", &format!("--port {port}"))]);
    run(&mut shell(&logger, setup.path()), b"");
    server.wait_delivered(4);
    assert_eq!(server.stop(), Some(0));
    let written = fs::read(setup.path().join("out/messages.json")).expect("the sink's file");
    assert_eq!(text(written).lines().count(), 4);
}

/// What the patch mounts is where the reader looks, and it patches the container of the nodes.
#[test]
fn the_patch_of_the_nodes_mounts_what_is_read() {
    let mut blocks = yaml::of_section("Kubernetes");
    let (patch, nodes) = (blocks.swap_remove(3), blocks.swap_remove(2));
    let pod = &patch[0]["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let patched = &object(&nodes, "DaemonSet")["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["name"], patched["name"]);
    let mount = &container["volumeMounts"][0];
    assert_eq!(mount["name"], pod["volumes"][0]["name"]);
    assert_eq!(mount["mountPath"], pod["volumes"][0]["hostPath"]["path"], "links lead to the same place");
    let read = bbq_server::config::ReadSpec::parse("containers:").expect("a reader");
    let path = mount["mountPath"].as_str().expect("a path");
    assert!(read.glob.starts_with(&format!("{path}/")), "{} is not below {path}", read.glob);
}

/// The probes of the nodes' pods reach the address for probes, which shows nothing else.
#[test]
fn bbq_serves_with_the_configuration_of_the_nodes() {
    let manifest = yaml::of_section("Kubernetes").swap_remove(2);
    let (_, toml) = configuration(&manifest);
    let pod = &object(&manifest, "DaemonSet")["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    for port in container["ports"].as_array().expect("ports") {
        let address = format!("0.0.0.0:{}", port["containerPort"]);
        assert!(toml.contains(&address), "{address} is not in\n{toml}");
    }
    // Each mount is of a volume, and the configuration names what is mounted.
    for mount in container["volumeMounts"].as_array().expect("mounts") {
        let volumes = pod["volumes"].as_array().expect("volumes");
        assert!(volumes.iter().any(|volume| volume["name"] == mount["name"]), "no volume of {mount}");
        let path = mount["mountPath"].as_str().expect("a path");
        assert!(path == "/etc/bbq" || toml.contains(path), "{path} is not in\n{toml}");
    }

    let ports: Vec<String> = free_ports(5).iter().map(|port| format!("127.0.0.1:{port}")).collect();
    let mut setup = Setup::new(&[]);
    let directory = setup.path().display().to_string();
    fs::write(setup.path().join("token"), "token-of-this-node\n").expect("a file");
    let toml = put(
        &toml,
        &[
            ("0.0.0.0:4317", &ports[0]),
            ("0.0.0.0:4318", &ports[1]),
            ("0.0.0.0:7780", &ports[2]),
            ("bbq.bbq.svc.cluster.local:7700", &ports[3]),
            ("0.0.0.0:7791", &ports[4]),
            ("/etc/bbq-secrets", &directory),
        ],
    );
    setup.set_sinks(&[]);
    let setup = setup.config(&toml);
    let _server = Program::start(setup.command().stderr(Stdio::null()));
    let url = |path: &str| format!("http://{}{path}", ports[4]);
    let answers = |words: &[&str]| {
        let output =
            Command::new("curl").args(["--silent", "--fail", "--max-time", "60"]).args(words).output();
        output.expect("curl").status.success()
    };
    for probe in ["livenessProbe", "readinessProbe"] {
        let asked = &container[probe]["httpGet"];
        assert_eq!(asked["port"], "probe", "{probe}");
        let path = asked["path"].as_str().expect("a path");
        wait_until(path, || answers(&[&url(path)]));
    }
    assert!(!answers(&[&url("/status")]), "the status is at the admin alone");
    assert!(answers(&[&format!("http://{}/status", setup.admin())]));
}

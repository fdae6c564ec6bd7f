//! What the path of a file says of its lines, by the names of OpenTelemetry's conventions.
//!
//! ```text
//! /var/log/containers/POD_NAMESPACE_CONTAINER-ID.log -> /var/log/pods/NAMESPACE_POD_UID/CONTAINER/0.log
//! /var/lib/docker/containers/ID/ID-json.log
//! ```

use std::path::Path;

/// Names and values.
pub(crate) type FileFields = Vec<(&'static str, String)>;

/// Characters of the id of a container.
const ID_CHARACTERS: usize = 64;

/// The fields of a file that is not of a container.
pub(crate) fn of_file(path: &Path) -> FileFields {
    vec![("log.file.path", path.to_string_lossy().into_owned())]
}

/// The fields of a container's log.
pub(crate) fn of_container(path: &Path) -> FileFields {
    let mut fields = of_file(path);
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let link = of_link(&name);
    let pod = of_pod(&real);
    match (&pod, &link) {
        (Some(pod), link) => {
            fields.extend(pod.iter().cloned());
            fields.extend(link.iter().flatten().filter(|(key, _)| *key == "container.id").cloned());
        }
        (None, Some(link)) => fields.extend(link.iter().cloned()),
        (None, None) => {
            let id = name.strip_suffix("-json.log").filter(|id| is_id(id));
            fields.extend(id.map(|id| ("container.id", id.to_owned())));
        }
    }
    fields
}

/// `POD_NAMESPACE_CONTAINER-ID.log`. None of the names has an underscore.
fn of_link(name: &str) -> Option<FileFields> {
    let (rest, id) = name.strip_suffix(".log")?.rsplit_once('-')?;
    let mut parts = rest.splitn(3, '_');
    let (pod, namespace, container) = (parts.next()?, parts.next()?, parts.next()?);
    if !is_id(id) {
        return None;
    }
    Some(vec![
        ("k8s.namespace.name", namespace.to_owned()),
        ("k8s.pod.name", pod.to_owned()),
        ("k8s.container.name", container.to_owned()),
        ("container.id", id.to_owned()),
    ])
}

/// `NAMESPACE_POD_UID/CONTAINER/RESTARTS.log`, also with what a rotation has appended.
fn of_pod(real: &Path) -> Option<FileFields> {
    let container_directory = real.parent()?;
    let container = container_directory.file_name()?.to_str()?;
    let mut parts = container_directory.parent()?.file_name()?.to_str()?.splitn(3, '_');
    let (namespace, pod, uid) = (parts.next()?, parts.next()?, parts.next()?);
    let restarts = real.file_name()?.to_str()?.split('.').next()?;
    let mut fields = vec![
        ("k8s.namespace.name", namespace.to_owned()),
        ("k8s.pod.name", pod.to_owned()),
        ("k8s.pod.uid", uid.to_owned()),
        ("k8s.container.name", container.to_owned()),
    ];
    if restarts.parse::<u32>().is_ok() {
        fields.push(("k8s.container.restart_count", restarts.to_owned()));
    }
    Some(fields)
}

fn is_id(text: &str) -> bool {
    text.len() == ID_CHARACTERS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn paths_of_the_kubelet_and_of_docker_name_the_container() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let id = "0123456789abcdef".repeat(4);
        let pod = root.join("pods/shop_web-0_12-34/nginx");
        fs::create_dir_all(&pod).unwrap();
        fs::create_dir_all(root.join("containers")).unwrap();
        fs::write(pod.join("3.log"), "").unwrap();
        let link = root.join(format!("containers/web-0_shop_nginx-{id}.log"));
        symlink(pod.join("3.log"), &link).unwrap();
        let get = |path: &Path, name: &str| {
            of_container(path).into_iter().find(|(key, _)| *key == name).map(|(_, value)| value)
        };
        for (name, value) in [
            ("k8s.namespace.name", "shop"),
            ("k8s.pod.name", "web-0"),
            ("k8s.pod.uid", "12-34"),
            ("k8s.container.name", "nginx"),
            ("k8s.container.restart_count", "3"),
            ("container.id", &id),
        ] {
            assert_eq!(get(&link, name).as_deref(), Some(value), "{name}");
        }
        fs::remove_file(pod.join("3.log")).unwrap();
        assert_eq!(get(&link, "k8s.pod.name").as_deref(), Some("web-0"));
        let docker = Path::new("/d").join(&id).join(format!("{id}-json.log"));
        assert_eq!(get(&docker, "container.id"), Some(id));
        assert_eq!(of_container(Path::new("/a/b.log")).len(), 1);
    }
}

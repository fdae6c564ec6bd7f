{{/* The name of the release's objects, with the part behind it; a name of a pod of a DaemonSet has 63 characters with what Kubernetes appends. */}}
{{- define "bbq.name" -}}
{{- if contains "bbq" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-bbq" (.Release.Name | trunc 36 | trimSuffix "-") }}{{ end }}
{{- end }}

{{- define "bbq.centreName" -}}{{ include "bbq.name" . }}-centre{{- end }}
{{- define "bbq.agent" -}}{{ include "bbq.name" . }}-agent{{- end }}

{{/* HOST:PORT of the centre's listener for agents. */}}
{{- define "bbq.centre" -}}
{{- if .Values.agent.centreAddress -}}
{{ .Values.agent.centreAddress }}
{{- else if .Values.centre.enabled -}}
{{- range .Values.centre.ports }}{{ if eq .name "bbq" }}{{ include "bbq.centreName" $ }}.{{ $.Release.Namespace }}.svc:{{ .port }}{{ end }}{{ end }}
{{- else -}}
{{ fail "agent.centreAddress: without centre.enabled, the agents need the address of a centre, HOST:PORT" }}
{{- end -}}
{{- end }}

{{- define "bbq.labels" -}}
app.kubernetes.io/name: bbq
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "bbq.image" -}}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{- end }}

{{/* What both containers have, for a list of arguments: the context and the resources. */}}
{{- define "bbq.container" -}}
name: bbq
image: {{ include "bbq.image" .root | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
args: [serve, --config, /etc/bbq/bbq.toml]
readinessProbe:
  exec:
    command: [/usr/bin/bbq, status, --wait, "1"]
  periodSeconds: 10
  timeoutSeconds: 5
resources:
  {{- toYaml .of.resources | nindent 2 }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end }}

{{/* Where a pod runs. */}}
{{- define "bbq.placement" -}}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

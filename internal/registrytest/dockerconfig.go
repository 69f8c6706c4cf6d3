package registrytest

import (
	"encoding/base64"
	"encoding/json"
)

// DockerConfig is the text of a Docker config.json with the credentials of the
// registries.
func DockerConfig(rs ...*Registry) string {
	auths := map[string]any{}
	for _, r := range rs {
		if r.Username != "" {
			auths[r.Host] = map[string]string{"auth": base64.StdEncoding.EncodeToString([]byte(r.Username + ":" + r.Password))}
		}
	}
	b, _ := json.Marshal(map[string]any{"auths": auths}) // strings marshal
	return string(b)
}

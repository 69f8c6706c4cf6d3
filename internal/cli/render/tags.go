package render

// TagList is the JSON of "ls".
type TagList struct {
	Name string   `json:"name"`
	Tags []string `json:"tags"`
}

// NewTagList returns the document of a list, whose tags are never null.
func NewTagList(name string, tags []string) TagList {
	if tags == nil {
		tags = []string{}
	}
	return TagList{Name: name, Tags: tags}
}

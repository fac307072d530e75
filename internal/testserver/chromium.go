package testserver

import "testing"

// Chromium gives the path of a browser, for tests of what people see. It is required by COORD_TEST_REQUIRE=chromium.
func Chromium(t testing.TB) (path string) {
	t.Helper()
	k := kind{store: "chromium", binaries: []string{
		"chromium", "chromium-browser", "google-chrome", "/Applications/Chromium.app/Contents/MacOS/Chromium",
	}}
	if path = find(k.binaries); path == "" {
		missing(t, k)
	}
	return path
}

// Command lists lists models and makes none.
package main

import (
	"fmt"

	"agentplatform/internal/provider/registry"
	"agentplatform/internal/setting"
)

func main() { fmt.Println(len(registry.Catalogues(setting.Settings{}))) }

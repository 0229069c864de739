package config

// builtinStyles are the names for style_preset (addendum 8.3), in the order in
// which they are listed.
var builtinStyles = []string{
	"3D Model", "Analog Film", "Anime", "Cinematic", "Comic Book", "Craft Clay", "Digital Art", "Enhance", "Fantasy Art",
	"Isometric Style", "Line Art", "Lowpoly", "Neon Punk", "Origami", "Photographic", "Pixel Art", "Texture", "Advertising",
	"Food Photography", "Real Estate", "Abstract", "Cubist", "Graffiti", "Hyperrealism", "Impressionist", "Pointillism",
	"Pop Art", "Psychedelic", "Renaissance", "Steampunk", "Surrealist", "Typography", "Watercolor", "Fighting Game",
	"Retro Arcade", "Retro Game", "RPG Fantasy Game", "Strategy Game", "Architectural", "Disco", "Dreamscape", "Dystopian",
	"Fairy Tale", "Gothic", "Grunge", "Horror", "Minimalist", "Monochrome", "Nautical", "Space", "Stained Glass",
	"Techwear Fashion", "Tribal", "Zentangle", "Collage", "Flat Papercut", "Kirigami", "Paper Mache", "Paper Quilling",
	"Papercut Collage", "Papercut Shadow Box", "Stacked Papercut", "Thick Layered Papercut", "Alien", "Film Noir", "HDR",
	"Long Exposure", "Neon Noir", "Silhouette", "Tilt-Shift",
}

// brandedStyles are marks of other companies: off unless the operator says so.
var brandedStyles = []string{"GTA", "Super Mario", "Minecraft", "Pokemon", "Street Fighter", "Legend of Zelda"}

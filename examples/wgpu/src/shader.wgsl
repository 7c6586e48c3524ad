// Objects with moons, in front of a wall of night.

struct Object {
    clip: mat4x4f,
    turn: mat4x4f,
    colour: vec4f,
    place: vec4f,
    eye: vec4f,
}

struct Instance {
    offset: vec3f,
    scale: f32,
    pale: f32,
    twist: f32,
    rest: vec2f,
}

@group(0) @binding(0) var<uniform> object: Object;
@group(1) @binding(0) var<storage, read> instances: array<Instance>;

struct Corner {
    @builtin(position) clip: vec4f,
    @location(0) world: vec3f,
    @location(1) normal: vec3f,
    @location(2) surface: vec2f,
    @location(3) pale: f32,
}

fn around_z(v: vec3f, angle: f32) -> vec3f {
    let c = cos(angle);
    let s = sin(angle);
    return vec3f(c * v.x - s * v.y, s * v.x + c * v.y, v.z);
}

@vertex
fn corner(
    @builtin(instance_index) index: u32,
    @location(0) position: vec3f,
    @location(1) normal: vec3f,
    @location(2) surface: vec2f,
) -> Corner {
    let instance = instances[index];
    let turned = around_z((object.turn * vec4f(position, 0.0)).xyz, instance.twist);
    let centre = object.place.xyz + around_z(instance.offset, object.place.w);
    var out: Corner;
    out.world = centre + instance.scale * turned;
    out.normal = around_z((object.turn * vec4f(normal, 0.0)).xyz, instance.twist);
    out.surface = surface;
    out.pale = instance.pale;
    out.clip = object.clip * vec4f(out.world, 1.0);
    return out;
}

@fragment
fn shade(in: Corner) -> @location(0) vec4f {
    let normal = normalize(in.normal);
    let eye = normalize(object.eye.xyz - in.world);
    let key = normalize(vec3f(-0.5, 0.8, 0.7));
    let band = smoothstep(0.86, 0.9, abs(cos(in.surface.x * 18.849556)));
    let base = mix(mix(object.colour.rgb, vec3f(1.0), in.pale), vec3f(1.0), 0.22 * band);
    let lit = max(dot(normal, key), 0.0);
    let sky = 0.5 + 0.5 * normal.y;
    let ambient = mix(vec3f(0.06, 0.05, 0.1), vec3f(0.2, 0.24, 0.34), sky);
    let shine = pow(max(dot(normal, normalize(key + eye)), 0.0), 48.0);
    let rim = pow(1.0 - max(dot(normal, eye), 0.0), 3.0);
    let light = base * (ambient + lit * vec3f(1.0, 0.95, 0.86));
    return vec4f(light + 0.55 * shine + rim * mix(base, vec3f(0.5, 0.6, 0.9), 0.5) * 0.5, 1.0);
}

struct Place {
    @builtin(position) clip: vec4f,
    @location(0) place: vec2f,
}

// One triangle that covers the picture.
@vertex
fn wall(@builtin(vertex_index) index: u32) -> Place {
    let place = vec2f(f32((index << 1u) & 2u), f32(index & 2u));
    return Place(vec4f(place * 2.0 - 1.0, 1.0, 1.0), place);
}

@fragment
fn night(in: Place) -> @location(0) vec4f {
    let from_middle = length(in.place - vec2f(0.5));
    let glow = vec3f(0.03, 0.036, 0.07);
    let dark = vec3f(0.006, 0.007, 0.016);
    return vec4f(mix(glow, dark, smoothstep(0.0, 0.75, from_middle)), 1.0);
}

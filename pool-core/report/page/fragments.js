// How much of what is free is in stretches too short for a request, over time.

class FragmentsChart {
  constructor(view, canvas) {
    this.view = view;
    this.canvas = canvas;
  }

  draw() {
    const { view, canvas } = this;
    const { context, width, height } = sharp(canvas);
    const [top, bottom] = [5, height - 5];
    const y = (share) => bottom - share * (bottom - top);
    drawSteps(context, [0, 0.5, 1], y, width, (share) => `${share * 100} %`);
    const { eventsAPlace, places, shares } = view.history.fragments;
    const { least, most } = shares[view.size] ?? {};
    if (places) {
      context.fillStyle = context.strokeStyle = theme("fragments");
      const line = new Path2D();
      const pixels = Math.max(1, Math.floor(width - LEFT - RIGHT));
      let first = view.eventAt(view.from);
      for (let pixel = 0; pixel < pixels; pixel++) {
        const last = view.eventAt(view.from + ((pixel + 1) / pixels) * (view.to - view.from));
        let [low, high] = [1000, 0];
        for (let place = Math.floor(first / eventsAPlace); place <= Math.floor(last / eventsAPlace); place++) {
          low = Math.min(low, least[place]);
          high = Math.max(high, most[place]);
        }
        const [from, to] = [y(high / 1000), y(low / 1000)];
        const x = LEFT + pixel;
        context.globalAlpha = 0.55;
        context.fillRect(x, to, 1.02, bottom - to);
        context.globalAlpha = 0.25;
        context.fillRect(x, from, 1.02, to - from);
        context.globalAlpha = 1;
        if (pixel === 0) line.moveTo(x, from);
        line.lineTo(x, from);
        line.lineTo(x + 1, from);
        first = last;
      }
      context.stroke(line);
    }
    drawCursor(context, view, width, top, bottom);
  }
}

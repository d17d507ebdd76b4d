// One rank of `tutti train mnist` in a process: device_train DATA DEVICE EPOCHS JSON [CHAOS]
#include <tutti/trainer/options.h>
#include <tutti/trainer/run_training.h>

#include <chrono>
#include <iostream>
#include <string>

int main(int argc, char** argv) {
  if (argc != 5 && argc != 6) {
    std::cerr << "usage: device_train DATA DEVICE EPOCHS JSON [CHAOS]\n";
    return 2;
  }
  tutti::trainer::TrainOptions options;
  options.data = argv[1];
  options.device = argv[2];
  options.epochs = std::stoi(argv[3]);
  options.json = argv[4];
  if (argc == 6) {
    options.chaos = argv[5];
    options.timeout = std::chrono::seconds(5);
  }
  options.batch_size = 16;
  options.threads = 1;
  return tutti::trainer::run_training(options, {.out = std::cout, .err = std::cerr});
}
